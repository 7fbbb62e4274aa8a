"""Defines the parser of every command, and how flags are added to it with their environment variables.

A long-running process is configured by a ConfigMap, so each of its flags reads LEADSMAN_<FLAG>, some also a name that
Kubernetes users expect. The operator's commands read only what names the extender: an exported variable of one command
must not reach another one that means something else by it.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from leadsman.cli.flags.values import METAVARS, did_you_mean, member_of, positive_int, positive_number
from leadsman.runtime.redaction import hide_credentials


class CommandFailed(Exception):
    """A command cannot do what it was asked, through no fault of its flags; the text says why and what to do."""


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser without abbreviations that suggests the nearest command, choice or flag."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})

    def error(self, message: str) -> NoReturn:
        """Says what is wrong without the usage, which may be long; what was given may be a URL with credentials."""
        self.exit(2, hide_credentials(f"{self.prog}: {message} (see {self.prog} --help)\n"))

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


Fields = Mapping[str, tuple[str, str]]
"""Maps each field of a struct to the flag that sets it, and what it does."""

Parse = Callable[[str], Any]
"""Reads the text of a value; ArgumentTypeError for one that cannot be used. See leadsman.cli.flags.values."""

T = TypeVar("T")

UNITS_OF_NAMES = {"-seconds": "S", "-ratio": "RATIO"}
"""The ends of flags' names that say the unit, and how the usage shows a value of it."""


class Options:
    """Adds flags to `parser` whose defaults come from `environ`; None: no variable is read."""

    def __init__(self, parser: argparse._ActionsContainer, environ: Mapping[str, str] | None) -> None:
        self.parser, self._environ = parser, environ

    def flag(
        self,
        name: str,
        text: str,
        default: Any = None,
        parse: Parse | None = None,
        *,
        variable: str = "",
        also: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """Adds a flag that falls back on environment variables: the first one that is set and not empty wins.

        text: what it does. The help says the default behind it, unless the text itself does; "{default}" stands for it.
        parse: None: the value is read as its default is: a number above 0, a member of an Enum, or any text.
        variable: the first of them, where LEADSMAN_<FLAG> would mean another thing to each process; then ValueError
            when LEADSMAN_<FLAG> is set, so that nobody believes it to be read.
        also: those after it.
        more: further arguments of argparse's add_argument.
        """
        if self._environ is None:
            self.argument(name, text, default, parse, **more)
            return
        if variable and self._environ.get(_variable(name)):
            raise ValueError(
                f"{_variable(name)} is not read, as it would mean another thing to each process; set {variable}"
            )
        variables = [variable or _variable(name), *also]
        given = next((self._environ[each] for each in variables if self._environ.get(each)), None)
        shown = f"{_with_default(text, default)} [{', '.join('$' + each for each in variables)}]"
        self.argument(name, shown, given or default, parse or _parser_of(default), **more)

    def argument(self, name: str, text: str, default: Any = None, parse: Parse | None = None, **more: Any) -> None:
        """Adds a flag that reads no environment variable; text and parse as of `flag`."""
        parse = parse or _parser_of(default)
        more.setdefault("metavar", _metavar(name, parse))
        self.parser.add_argument(f"--{name}", help=_with_default(text, default), type=parse, default=default, **more)

    def switch(self, name: str, text: str) -> None:
        """Adds a flag without a value, off by default; LEADSMAN_<FLAG> set to 1, true, yes or on switches it on."""
        if self._environ is None:
            self.parser.add_argument(f"--{name}", help=text, action="store_true")
            return
        given = self._environ.get(_variable(name), "").lower() in ("1", "true", "yes", "on")
        self.parser.add_argument(f"--{name}", help=f"{text} [${_variable(name)}]", action="store_true", default=given)

    def fields(self, defaults: object, fields: Fields) -> None:
        """Adds flags for fields of a struct. defaults: a struct that has them; see `from_flags`."""
        for field, (flag, text) in fields.items():
            self.flag(flag, text, getattr(defaults, field))

    def group(self, title: str) -> "Options":
        return Options(self.parser.add_argument_group(title), self._environ)

    def without_environment(self) -> "Options":
        """Returns these options for the operator's commands, which no exported variable may reach."""
        return Options(self.parser, None)

    def for_subcommand(self, parser: argparse._ActionsContainer) -> "Options":
        """Returns these options for a subcommand's parser."""
        return Options(parser, self._environ)


def _variable(flag: str) -> str:
    return f"LEADSMAN_{flag.upper().replace('-', '_')}"


def _parser_of(default: Any) -> Parse:
    if isinstance(default, StrEnum):
        return member_of(type(default))
    return {int: positive_int, float: positive_number}.get(type(default), str)


def _metavar(name: str, parse: Parse) -> str | None:
    """Says how the usage shows the value; None: as argparse would, the flag's name in capitals."""
    of_unit = next((shown for end, shown in UNITS_OF_NAMES.items() if name.endswith(end)), None)
    return of_unit or METAVARS.get(parse)


def _with_default(text: str, default: Any) -> str:
    if isinstance(default, frozenset):
        default = ",".join(sorted(default))
    if default not in (None, "", ()) and "default" not in text:
        text += " (default {default})"
    return text.replace("{default}", f"{default:g}" if isinstance(default, float) else str(default))


def not_given(args: argparse.Namespace, *flags: str) -> list[str]:
    """Returns those of the flags, as "--replica-tls", that have no value."""
    return [flag for flag in flags if getattr(args, flag.removeprefix("--").replace("-", "_")) is None]


def from_flags(args: argparse.Namespace, kind: type[T], fields: Fields, **more: Any) -> T:
    """Makes the struct whose fields `Options.fields` added. more: its other fields."""
    return kind(**{field: getattr(args, flag.replace("-", "_")) for field, (flag, _) in fields.items()}, **more)
