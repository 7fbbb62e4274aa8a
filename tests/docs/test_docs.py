"""The documents name what exists: links, files, commands with their flags, metrics, and a test for each feature."""

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from agent.hardware.summary import CUSTOM_PREFIX
from leadsman.cli.main import build_parser
from website.metrics_page import metric_families

ROOT = Path(__file__).parents[2]
TREES = ("agent", "benchmarks", "controller", "daemonset", "docs", "examples", "extender", "leadsman", "tests")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z_-]*[a-z]")
OURS = re.compile(r"^(?:\$ )?(?:kubectl )?leadsman ")


@cache
def documents() -> dict[str, str]:
    """Maps the path of each document to its text."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [path for path in listed.stdout.splitlines() if not path.startswith("tests/") and (ROOT / path).is_file()]
    return {path: (ROOT / path).read_text() for path in paths}


def code_of(text: str) -> list[str]:
    """Lists the code of a document: the lines of its blocks, continued lines joined, and its inline spans."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [*lines, *(" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose))]


def test_every_link_leads_to_a_file_and_its_heading() -> None:
    broken = []
    for path, text in documents().items():
        for target, _, heading in re.findall(r"\]\(((?!https?:)[^)#\s]*)(#([^)\s]+))?\)", text):
            file = (ROOT / path).parent / target if target else ROOT / path
            if not file.exists() or (heading and heading not in anchors(file.read_text())):
                broken.append((path, target, heading))
    assert broken == []


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_file_that_is_named_exists() -> None:
    named = re.compile(rf"^(?:{'|'.join(TREES)})/[\w./-]*\w/?$")
    missing = {
        (path, span)
        for path, text in documents().items()
        for span in code_of(text)
        if named.match(span) and not (ROOT / span).exists()
    }
    assert missing == set()


def test_each_feature_has_tests_and_each_of_them_exists() -> None:
    rows = re.findall(r"^\| ([A-H]\d+) \| [^|]+ \| (.+) \|$", documents()["docs/features.md"], re.MULTILINE)
    assert len(rows) == 69
    shown = [(row, name) for row, cell in rows for name in re.findall(r"`(tests/[^`]+)`", cell)]
    assert {row for row, _ in shown} == {row for row, _ in rows}
    assert [(row, name) for row, name in shown if not is_test(name)] == []


def is_test(name: str) -> bool:
    """Tells whether `name`, a file or FILE::TEST as pytest writes it, is there."""
    file, *names = name.split("::")
    if not (ROOT / file).is_file():
        return False
    body = ast.parse((ROOT / file).read_text()).body
    for each in names:
        found = [node for node in body if getattr(node, "name", None) == each]
        if not found:
            return False
        body = getattr(found[0], "body", [])
    return True


@cache
def commands() -> dict[str, set[str]]:
    """Maps each command, as "plan drain", to its flags."""
    return dict(flags_below("", build_parser({})))


def flags_below(words: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, set[str]]]:
    yield words, {flag for action in parser._actions for flag in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from flags_below(f"{words} {name}".strip(), each)


def test_every_command_is_one_and_has_the_flags_that_it_is_given() -> None:
    wrong = []
    for path, text in documents().items():
        for code in filter(OURS.match, code_of(text)):
            line = OURS.sub("", code).partition(" | ")[0]
            words = re.match(r"(?:[a-z][a-z-]*(?: |$))*", line)
            assert words
            typed = words[0].split()
            known = next((" ".join(typed[:end]) for end in (2, 1) if " ".join(typed[:end]) in commands()), "")
            flags = set(FLAG.findall(line)) - commands()[known] if known else {"no such command"}
            wrong += [(path, code, flag) for flag in flags if typed]
    assert wrong == []


def test_every_flag_that_stands_alone_is_ours_or_of_a_program_that_the_page_calls() -> None:
    """Another program's flag is explained beside a command of that program, as `helm --set`, and needs no list here."""
    ours = set().union(*commands().values())
    code = {path: code_of(text) for path, text in documents().items()}
    others = {
        flag for spans in code.values() for span in spans if not span.startswith("--") for flag in FLAG.findall(span)
    }
    named = {(path, span) for path, spans in code.items() for span in spans if span.startswith("--")}
    assert sorted((path, span) for path, span in named if not set(FLAG.findall(span)) <= ours | others) == []


def test_every_metric_that_is_named_is_one_of_ours() -> None:
    named = set()
    for text in documents().values():
        for start, choices, end in re.findall(r"\b(leadsman_[a-z0-9_]*)(?:\{([a-z_,]+)\})?([a-z_]*)", text):
            given = [start + one + end for one in choices.split(",")] if start.endswith("_") and choices else [start]
            named |= {name for name in given if not name.endswith("_")}
    ours = {name for each in metric_families() for name in (each.name, *each.series)}
    of_plugins = {name for name in named if name.startswith(f"leadsman_{CUSTOM_PREFIX}")}
    assert named
    assert named - ours - of_plugins == set()
