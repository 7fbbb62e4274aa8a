"""The reference of the command line as Markdown, and as man pages (man-pages(7))."""

from collections.abc import Iterator, Mapping

from leadsman.cli.reference.parser_tree import Command, Flag


def markdown(top: Command) -> str:
    lines = [
        "# Commands and flags",
        "",
        "Made from the parser. `$NAME` in brackets is the environment variable that stands for the flag.",
        "`kubectl leadsman` takes the same.",
        "",
        *(f"- [`{each.words}`](#{each.words.replace(' ', '-')}): {each.text}" for each in list(top.walk())[1:]),
        "",
    ]
    for command in list(top.walk())[1:]:
        lines += [f"## {command.words}", "", _sentence(command.text), "", f"    {command.usage}", ""]
        lines += _markdown_tables(command)
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown_tables(command: Command) -> Iterator[str]:
    arguments = [(each.name, each.text) for each in command.arguments]
    groups = [(group.title, [(_flag_title(flag), flag.text) for flag in group.flags]) for group in command.groups]
    for title, rows in [("argument", arguments), *groups]:
        if rows:
            yield f"| {'flag' if title == 'options' else title} | means |"
            yield "| --- | --- |"
            yield from (f"| `{name}` | {_cell(text)} |" for name, text in rows)
            yield ""


def _flag_title(flag: Flag) -> str:
    return ", ".join(flag.names) + f" {flag.value}" * bool(flag.value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def man_pages(top: Command, version: str) -> Mapping[str, str]:
    """File name → page: one of the program, and one a command with its subcommands."""
    pages = {"leadsman.1": _man_page(top, version, deep=False)}
    for command in top.subcommands:
        pages[f"leadsman-{command.name}.1"] = _man_page(command, version, deep=True)
    return pages


def _man_page(command: Command, version: str, *, deep: bool) -> str:
    dashed = command.words.replace(" ", "-")
    lines = [
        f'.TH {dashed.upper()} 1 "" "Leadsman {version}" "Leadsman"',
        ".SH NAME",
        f"{_roff(dashed)} \\- {_roff(command.text.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_roff(command.usage)}",
    ]
    if command.subcommands:
        lines.append(".SH COMMANDS")
        lines += [line for each in command.subcommands for line in (".TP", f".B {each.name}", _roff(each.text))]
    for each in command.walk() if deep else [command]:
        lines += _man_options(each, each.words if each is not command else "options")
    return "\n".join([*lines, ".SH SEE ALSO", f".BR {'leadsman (1)' if deep else 'kubectl (1)'}"]) + "\n"


def _man_options(command: Command, title: str) -> Iterator[str]:
    rows = [(each.name, each.text) for each in command.arguments]
    rows += [(_flag_title(flag), flag.text) for flag in command.flags]
    if rows:
        yield f".SH {_roff(title.upper())}"
        for name, text in rows:
            yield from (".TP", f".B {_roff(name)}", _roff(text))


def _roff(text: str) -> str:
    """Backslashes and hyphens as themselves; no line may begin with a control character."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
