"""What an agent has in memory: each needless import takes some on every node, and so does what Python keeps."""

import re
import subprocess
import sys

NEVER = [
    "controller", "ctypes", "difflib", "extender", "fractions", "importlib.metadata", "kubernetes",
    "leadsman.decision", "leadsman.planning", "leadsman.sources", "leadsman.testbed", "multiprocessing",
    "numpy", "pynvml", "sqlite3", "statistics", "unittest", "yaml", "zipfile",
]  # fmt: skip

IMPORTS = """
import sys
from leadsman.cli import main
from leadsman.runtime.lean_aiohttp import import_aiohttp
import_aiohttp()
main.build_parser({}, "agent")
import agent.run
print(*sys.modules)
"""


def test_an_agent_imports_nothing_that_it_never_needs() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.split())
    assert "agent.rtt.prober" in imported
    assert imported.isdisjoint(NEVER), sorted(imported.intersection(NEVER))


PROGRAM = """
import sys
from leadsman.cli.agent import collect_garbage_often

collect_garbage_often()
burst = [tuple(range(length)) for length in range(1, 20) for _ in range(1000)]
del burst
work = [[] for _ in range(1000)]
sys._debugmallocstats()
"""


def test_the_tuples_of_a_burst_are_given_back_while_an_agent_works() -> None:
    """With Python's own thresholds 2.0 MB of them are kept, until 70,000 objects have come."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    kept = re.findall(r"\d+ free .*=\s*([\d,]+)", ran.stderr)
    assert kept
    assert sum(int(amount.replace(",", "")) for amount in kept) < 100_000
