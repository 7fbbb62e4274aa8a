"""Hides credentials that somebody wrote into a URL: what people read must not show them."""

import logging
import re

HIDDEN = "<redacted>"

_USER_INFO = re.compile(r"(?<=://)[^\s/?#'\"]*@")
_QUERY = re.compile(
    r"([?&][^=&\s'\"]*(?:token|password|passwd|secret|key|auth|signature)[^=&\s'\"]*=)[^&\s'\"#]+", re.I
)


def hide_credentials(text: str) -> str:
    """Replaces user and password of each URL in the text, and query parameters that name a secret."""
    if "://" not in text:
        return text
    return _QUERY.sub(rf"\1{HIDDEN}", _USER_INFO.sub(f"{HIDDEN}@", text))


class RedactingFormatter(logging.Formatter):
    """Formats a whole line, with its traceback, without credentials."""

    def format(self, record: logging.LogRecord) -> str:
        return hide_credentials(super().format(record))
