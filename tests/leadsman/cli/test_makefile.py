"""What `make` says and installs, by its own account of what it would run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leadsman.testbed.etcd import find_binary

ROOT = Path(__file__).parents[3]

MAKE = shutil.which("make") or ""
pytestmark = pytest.mark.skipif(not MAKE, reason="no make: apt-get install make")


def make(*arguments: str, folder: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [MAKE, *arguments], cwd=folder, env={**outer, **environ}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that a new checkout's first `make` reads, and an environment of its own without any package."""
    for name in ("Makefile", "setup.cfg", "leadsman"):
        (tmp_path / name).symlink_to(ROOT / name)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=tmp_path, check=True)
    return tmp_path


def test_an_etcd_is_installed_where_path_has_none(checkout: Path) -> None:
    assert "'.[local]'" in make("-n", "demo", folder=checkout, PATH=str(checkout / "empty")).stdout
    assert "'.[local,test]'" in make("-n", "test", folder=checkout, PATH=str(checkout / "empty")).stdout


def test_an_etcd_on_path_is_used(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/etcd").symlink_to(find_binary())
    path = str(tmp_path / "bin")
    assert "'.'" in make("-n", "demo", folder=checkout, PATH=path).stdout
    assert "'.[test]'" in make("-n", "test", folder=checkout, PATH=path).stdout
