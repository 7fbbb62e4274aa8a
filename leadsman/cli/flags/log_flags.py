"""Flags of what a long-running process logs."""

import argparse
import logging

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import one_of
from leadsman.runtime.log_format import FORMATTERS


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
