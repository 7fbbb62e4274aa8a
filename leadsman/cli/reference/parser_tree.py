"""A parser as data: commands with their subcommands, arguments and flags."""

import argparse
from collections.abc import Iterator, Sequence

from msgspec import Struct

from leadsman.cli.flags.values import OneOf


class Flag(Struct, frozen=True):
    """names: short ones first. value: as the usage shows it; "": a switch. choices: empty: any value."""

    names: Sequence[str]
    value: str
    text: str
    choices: Sequence[str] = ()

    @property
    def takes_path(self) -> bool:
        return self.value in ("FILE", "DIR", "PATH")


class Group(Struct, frozen=True):
    title: str
    flags: Sequence[Flag]


class Argument(Struct, frozen=True):
    name: str
    text: str
    choices: Sequence[str] = ()


class Command(Struct, frozen=True):
    """words: as it is typed, `leadsman plan drain`. text: what it does. usage: without line breaks."""

    words: str
    text: str
    usage: str
    arguments: Sequence[Argument]
    groups: Sequence[Group]
    subcommands: Sequence["Command"]

    @property
    def name(self) -> str:
        return self.words.rpartition(" ")[2]

    @property
    def flags(self) -> Sequence[Flag]:
        return [flag for group in self.groups for flag in group.flags]

    def walk(self) -> Iterator["Command"]:
        """This command and every one below it."""
        yield self
        for each in self.subcommands:
            yield from each.walk()


def read(parser: argparse.ArgumentParser, text: str = "") -> Command:
    actions = [each for each in parser._actions if each.help != argparse.SUPPRESS]
    choosing = [each for each in actions if isinstance(each, argparse._SubParsersAction)]
    subcommands = [
        read(each.choices[listed.dest], listed.help or "") for each in choosing for listed in each._choices_actions
    ]
    return Command(
        parser.prog,
        text or parser.description or "",
        " ".join(parser.format_usage().removeprefix("usage: ").split()),
        [_argument(each) for each in actions if not each.option_strings and each not in choosing],
        [group for group in map(_group, parser._action_groups) if group.flags],
        subcommands,
    )


def _group(group: argparse._ArgumentGroup) -> Group:
    actions = [each for each in group._group_actions if each.option_strings and each.help != argparse.SUPPRESS]
    return Group(group.title or "", [_flag(each) for each in actions])


def _flag(action: argparse.Action) -> Flag:
    metavar = action.metavar if isinstance(action.metavar, str) else (action.metavar or (action.dest.upper(),))[0]
    return Flag(
        sorted(action.option_strings, key=len), "" if action.nargs == 0 else metavar, _help(action), _choices(action)
    )


def _argument(action: argparse.Action) -> Argument:
    return Argument(str(action.metavar or action.dest), _help(action), _choices(action))


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _choices(action: argparse.Action) -> Sequence[str]:
    if isinstance(action.type, OneOf):
        return action.type.allowed
    return [str(each) for each in action.choices or ()]
