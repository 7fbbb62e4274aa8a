"""What an agent must not import: each of these takes memory on every node, and none of it is used there."""

import subprocess
import sys

NEVER = (
    "controller",
    "ctypes",
    "difflib",
    "extender",
    "fractions",
    "importlib.metadata",
    "kubernetes",
    "leadsman.decision",
    "leadsman.planning",
    "leadsman.sources",
    "leadsman.testbed",
    "multiprocessing",
    "numpy",
    "pynvml",
    "sqlite3",
    "statistics",
    "unittest",
    "yaml",
    "zipfile",
)

PROGRAM = """
import sys
from leadsman.cli import main
from leadsman.runtime.lean_aiohttp import import_aiohttp
import_aiohttp()
main.build_parser({}, "agent")
import agent.run
print(*sys.modules)
"""


def test_an_agent_imports_nothing_that_it_never_needs() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.split())
    assert "agent.rtt.prober" in imported
    assert imported.isdisjoint(NEVER), sorted(imported.intersection(NEVER))
