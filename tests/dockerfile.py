"""The Dockerfile as steps."""

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]

Steps = list[tuple[str, str]]
"""(instruction, arguments) in order, continuation lines joined."""


def read_steps() -> Steps:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, arguments) for name, _, arguments in (line.partition(" ") for line in lines)]


def stage(steps: Steps, name: str) -> Steps:
    """The steps of this stage without its FROM, after those of the stages that it builds on; "" is the last one."""
    starts = [n for n, (instruction, _) in enumerate(steps) if instruction == "FROM"]
    named = {n: re.fullmatch(r"(\S+)(?: AS (\S+))?", steps[n][1]) for n in starts}
    (start,) = [n for n, match in named.items() if match and (match[2] or "") == name]
    match = named[start]
    assert match
    end = min([n for n in starts if n > start], default=len(steps))
    before = [] if match[1].startswith("$") else stage(steps, match[1])
    return [*before, *steps[start + 1 : end]]


def environ_of(target: str) -> Mapping[str, str]:
    """What the image of this stage sets for its process, but PATH; "" is the last one."""
    words = [word for name, arguments in stage(read_steps(), target) if name == "ENV" for word in arguments.split()]
    variables = dict(word.split("=", 1) for word in words)
    return {name: value for name, value in variables.items() if name != "PATH"}


def malloc_limits(target: str) -> Mapping[str, str]:
    """What the image of this stage tells the allocator: a process that is measured elsewhere runs with the same."""
    return {name: value for name, value in environ_of(target).items() if name.startswith("MALLOC_")}
