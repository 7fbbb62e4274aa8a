"""What a long-running process logs, and how a line looks: text or a JSON object.

Moments are UTC with milliseconds, and no line shows credentials.
"""

import argparse
import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import one_of
from leadsman.runtime.redaction import RedactingFormatter, hide_credentials


def _moment(record: logging.LogRecord) -> str:
    """RFC 3339, as 2026-11-22T13:44:40.123Z."""
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class TextFormatter(RedactingFormatter):
    """`MOMENT LEVEL LOGGER: MESSAGE`, and a traceback on the lines after it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 the base class's name
        return _moment(record)


class JsonFormatter(logging.Formatter):
    """An object a line: time, level, logger, message, and of a failure its traceback as `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: hide_credentials(text) for name, text in line.items()}, ensure_ascii=False)


FORMATTERS: Mapping[str, Callable[[], logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}
"""The value of --log-format → what makes it."""


def options(add: Options) -> None:
    add.flag(
        "log-level",
        "least severe level that is logged: debug, info, warning or error (default {default})",
        "info",
        one_of("debug", "info", "warning", "error"),
        metavar="LEVEL",
    )
    add.flag(
        "log-format",
        "text or json, an object a line (default {default}); moments are UTC in both",
        "text",
        one_of(*FORMATTERS),
        metavar="FORMAT",
    )


def start_logging(args: argparse.Namespace) -> None:
    """Logs to standard error. A command without these flags logs as their defaults say."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[getattr(args, "log_format", "text")]())
    logging.basicConfig(level=getattr(args, "log_level", "info").upper(), handlers=[handler])
