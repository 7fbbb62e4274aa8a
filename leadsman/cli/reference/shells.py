"""Completion scripts for bash, zsh and fish: static text, so that a keypress starts no Python."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from leadsman.cli.reference.parser_tree import Command, Flag


def candidates(top: Command, words: Sequence[str]) -> Sequence[str]:
    """What may stand in place of the last of `words`, which is being typed: those after the program's name."""
    command, previous = top, ""
    for word in words[:-1]:
        command = next((each for each in command.subcommands if each.name == word), command)
        previous = word
    typed = words[-1] if words else ""
    return [each for each in _possible(command, previous) if each.startswith(typed)]


def _possible(command: Command, previous: str) -> Sequence[str]:
    flag = next((each for each in command.flags if previous in each.names and each.value), None)
    return flag.choices if flag else _words(command)


def _words(command: Command) -> list[str]:
    choices = [choice for argument in command.arguments for choice in argument.choices]
    flags = [name for flag in command.flags for name in flag.names]
    return [*(each.name for each in command.subcommands), *choices, *flags]


def bash(top: Command) -> str:
    commands = list(top.walk())
    lines = [
        f"# Completion of {top.words}: source <(leadsman completion bash)",
        "_leadsman() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path=leadsman words= index",
        "    for ((index = 1; index < COMP_CWORD; index++)); do",
        '        case "$path ${COMP_WORDS[index]}" in',
        f"            {_patterns([each.words for each in commands[1:]])})",
        '                path="$path ${COMP_WORDS[index]}" ;;',
        "        esac",
        "    done",
        "    COMPREPLY=()",
        '    case "$path $previous" in',
        *(line for command in commands for line in _bash_values(command)),
        "    esac",
        '    case "$path" in',
        *(f'        {shlex.quote(each.words)}) words="{" ".join(_words(each))}" ;;' for each in commands),
        "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o bashdefault -o default -F _leadsman leadsman",
    ]
    return "\n".join(lines) + "\n"


def _bash_values(command: Command) -> Iterator[str]:
    """What follows a flag with a value: its choices, a path, or anything."""
    for flag in command.flags:
        if not flag.value:
            continue
        reply = f'COMPREPLY=($(compgen -W "{" ".join(flag.choices)}" -- "$current"))' if flag.choices else ""
        if flag.takes_path:
            reply = 'COMPREPLY=($(compgen -f -- "$current"))'
        given = _patterns([f"{command.words} {name}" for name in flag.names])
        yield f"        {given}) {reply}{'; ' * bool(reply)}return ;;"


def _patterns(texts: Sequence[str]) -> str:
    return "|".join(map(shlex.quote, texts))


def zsh(top: Command) -> str:
    """zsh reads bash's script through its own bashcompinit."""
    return f"#compdef leadsman\nautoload -U +X bashcompinit && bashcompinit\n{bash(top)}"


def fish(top: Command) -> str:
    lines = [f"# Completion of {top.words}: leadsman completion fish | source", "complete -c leadsman -f"]
    for command in top.walk():
        seen = command.words.split()[1:]
        here = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in seen) or "__fish_use_subcommand"
        names = [each.name for each in command.subcommands]
        for each in command.subcommands:
            until = f"{here}; and not __fish_seen_subcommand_from {' '.join(names)}" if seen else here
            lines.append(f"complete -c leadsman -n {shlex.quote(until)} -a {each.name} -d {_fish_quote(each.text)}")
        lines += [_fish_flag(here, flag) for flag in command.flags]
    return "\n".join(lines) + "\n"


def _fish_flag(condition: str, flag: Flag) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
    value = ""
    if flag.value:
        value = f" -xa {_fish_quote(' '.join(flag.choices))}" if flag.choices else " -rF" if flag.takes_path else " -x"
    return f"complete -c leadsman -n {shlex.quote(condition)} {names}{value} -d {_fish_quote(flag.text)}"


def _fish_quote(text: str) -> str:
    """In fish, a quoted string ends at the next quote that no backslash precedes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: Mapping[str, Callable[[Command], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
