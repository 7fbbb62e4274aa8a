"""Log lines that show no credentials which somebody wrote into a URL, and that nobody else's text can break."""

import logging
import re
import textwrap
from types import TracebackType

from leadsman.runtime.text_table import one_line

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

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
    """Formats a record as one line and its traceback, indented, below it; without credentials."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 the base class's name
        return one_line(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 the base class's name
        return textwrap.indent(super().formatException(ei), "  ")

    def format(self, record: logging.LogRecord) -> str:
        return hide_credentials(super().format(record))
