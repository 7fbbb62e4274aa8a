"""The wheel: what it holds, and that a demo runs from it on a machine that has no checkout."""

import csv
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("agent", "controller", "extender", "leadsman")
SOURCES = (*PACKAGES, "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
TIMEOUT_SECONDS = 90

pytestmark = pytest.mark.artefact


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the checkout gets no build folder."""
    folder = tmp_path_factory.mktemp("wheel")
    for source in (ROOT / name for name in SOURCES):
        if source.is_dir():
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    subprocess.run(pip, cwd=folder, check=True)
    (built,) = (folder / "dist").glob("leadsman-*.whl")
    return built


@pytest.fixture(scope="module")
def recorded(wheel: Path) -> set[str]:
    """The files that RECORD names."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        return {path for path, *_ in csv.reader(archive.read(name).decode().splitlines())}


def test_its_top_level_import_names_are_the_three_processes_and_leadsman(recorded: set[str]) -> None:
    assert {path.partition("/")[0] for path in recorded if ".dist-info/" not in path} == set(PACKAGES)


def test_it_holds_every_file_of_the_packages(recorded: set[str]) -> None:
    files = {path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file()}
    expected = {str(path) for path in files if "__pycache__" not in path.parts}
    assert {"leadsman/cli/demo/request.json", *(f"{name}/py.typed" for name in PACKAGES)} <= expected
    assert expected - recorded == set()


def test_a_demo_runs_from_it_in_a_new_environment_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=tmp_path, check=True)
    install = ["venv/bin/python", "-m", "pip", "install", "--quiet", f"{wheel}[local]"]
    subprocess.run(install, cwd=tmp_path, check=True)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = [str(tmp_path / "venv/bin/python"), "-c", "import leadsman; print(leadsman.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(tmp_path)
    demo = [str(tmp_path / "venv/bin/leadsman"), "demo"]
    done = subprocess.run(demo, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "Answer: default/cap-00000: edge-1 first" in done.stdout
