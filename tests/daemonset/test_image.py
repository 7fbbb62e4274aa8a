"""The Dockerfile's own steps, run by hand in a folder: what comes out works and writes nothing."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def image(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for / of the image."""
    top = tmp_path_factory.mktemp("image")
    for name, arguments in builder(root / "Dockerfile"):
        if name == "COPY":
            copy(root, top / "src", arguments)
        elif name == "RUN":
            done = subprocess.run(here(arguments, top), cwd=top / "src", capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    return top


def builder(dockerfile: Path) -> list[tuple[str, str]]:
    """The steps of the first stage."""
    text = re.sub(r"\\\n\s*", "", dockerfile.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    steps = [(name, arguments) for name, _, arguments in (line.partition(" ") for line in lines)]
    first, second = [n for n, (name, _) in enumerate(steps) if name == "FROM"]
    return steps[first + 1 : second]


def copy(root: Path, target: Path, arguments: str) -> None:
    *sources, _ = arguments.split()
    target.mkdir(exist_ok=True)
    for source in (root / s for s in sources):
        if source.is_dir():
            shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def here(command: str, top: Path) -> list[str]:
    """The command with this machine's Python and with the image's folders under `top`."""
    for folder in ("/wheels", "/opt/leadsman"):
        command = command.replace(folder, f"{top}{folder}")
    words = [match for word in shlex.split(command) for match in expand(word)]
    python = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "pip"]
    return [*python, *words[1:]]


def expand(word: str) -> list[str]:
    return [str(path) for path in Path("/").glob(word[1:])] if "*" in word else [word]


def run(image: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Without a place to write, as with a read-only root."""
    environment = {
        "PATH": f"{image}/opt/leadsman/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
    }
    return subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, check=False)


def test_every_module_that_was_copied_is_in_it(image: Path) -> None:
    paths = [path.relative_to(image / "src") for path in (image / "src").glob("*/**/*.py") if "build" not in path.parts]
    (site,) = image.glob("opt/leadsman/lib/python3*/site-packages")
    assert len(paths) > 10
    assert not [str(path) for path in paths if not (site / path).is_file()]


def test_the_command_line_answers(image: Path) -> None:
    done = run(image, "leadsman", "agent", "--help")
    assert done.returncode == 0, done.stderr
    assert "--node-name" in done.stdout


def test_it_has_no_installer_of_its_own(image: Path) -> None:
    assert not list(image.glob("opt/leadsman/bin/pip*"))


def test_running_it_leaves_nothing_behind(image: Path) -> None:
    before = set(image.rglob("*"))
    assert run(image, "leadsman", "agent", "--help").returncode == 0
    assert set(image.rglob("*")) == before
