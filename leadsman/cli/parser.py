"""The parser of every command: its errors say what was meant, and show no credentials."""

import argparse
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from leadsman.runtime.redaction import hide_credentials


def did_you_mean(text: str, allowed: Iterable[str]) -> str:
    """ "; did you mean explain?", or "" where nothing allowed is near."""
    # Imported here, as no agent that runs needs it.
    near = import_module("difflib").get_close_matches(text, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser without abbreviations that suggests the nearest command, choice or flag."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})

    def error(self, message: str) -> NoReturn:
        """Says what is wrong without the usage, which may be long; what was given may be a URL with credentials."""
        self.exit(2, hide_credentials(f"{self.prog}: {message}\nsee {self.prog} --help\n"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            allowed = [str(choice) for choice in action.choices]
            wanted = did_you_mean(str(value), allowed) or f": want one of {', '.join(allowed)}"
            raise argparse.ArgumentError(action, f"{value!r}{wanted}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses here what it does not know, so that the command in question says so."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._nearest_flag(unknown)}")
        return parsed, unknown

    def _nearest_flag(self, unknown: Sequence[str]) -> str:
        given = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        flags = [
            flag
            for action in self._actions
            if action.help != argparse.SUPPRESS
            for flag in action.option_strings
            if flag.startswith("--")
        ]
        return did_you_mean(given[0], flags) if given else ""
