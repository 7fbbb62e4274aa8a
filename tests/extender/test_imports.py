"""What an extender must not import unless it is asked for the feature: it takes memory, and time at each start."""

import subprocess
import sys

NEVER = [
    "cel", "controller", "cryptography", "importlib.metadata", "kubernetes", "leadsman.testbed",
    "multiprocessing", "numpy.ma", "numpy.random", "ortools", "psutil", "sqlite3", "unittest",
]  # fmt: skip

PROGRAM = """
import sys
from leadsman.cli import main
main.build_parser({}, "extender")
print(*sys.modules)
"""


def test_an_extender_imports_nothing_that_it_does_not_need() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    imported = set(ran.stdout.split())
    assert "extender.run" in imported
    assert imported.isdisjoint(NEVER), sorted(imported.intersection(NEVER))
