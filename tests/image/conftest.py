"""The builders' steps of the Dockerfile, run by hand in a folder: there is no engine to build it with."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.dockerfile import ROOT, Steps


def build(steps: Steps, top: Path) -> None:
    """Runs the steps; the folder `top` stands for / of the image."""
    environ = dict(os.environ)
    for name, arguments in steps:
        if name == "ARG":
            variable, _, value = arguments.partition("=")
            environ[variable] = value
        elif name == "COPY":
            _copy(top / "src", arguments)
        elif name == "RUN":
            command = _here(arguments, top)
            done = subprocess.run(command, cwd=top / "src", env=environ, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def _copy(work: Path, arguments: str) -> None:
    *sources, target = arguments.split()
    work.mkdir(exist_ok=True)
    for source in (ROOT / each for each in sources):
        if source.is_dir():
            shutil.copytree(source, work / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, work / target)


def _here(command: str, top: Path) -> list[str]:
    """The command with this machine's Python and with the image's folders under `top`."""
    command = re.sub(r"(?<![\w./])/(wheels|opt)\b", rf"{top}/\1", command)
    words = [match for word in shlex.split(command) for match in _expand(word)]
    programs = {"python": [sys.executable], "pip": [sys.executable, "-m", "pip"]}
    return [*programs.get(words[0], [words[0]]), *words[1:]]


def _expand(word: str) -> list[str]:
    return [str(path) for path in Path("/").glob(word[1:])] if "*" in word else [word]
