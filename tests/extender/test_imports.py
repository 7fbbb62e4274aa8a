"""What an extender must not import unless it is asked for the feature: it takes memory, and time at each start."""

import subprocess
import sys

NEVER = (
    "cel",
    "controller",
    "cryptography",
    "importlib.metadata",
    "kubernetes",
    "leadsman.testbed",
    "multiprocessing",
    "numpy.ma",
    "numpy.random",
    "ortools",
    "psutil",
    "sqlite3",
    "unittest",
)

PROGRAM = """
import asyncio, sys, time
from leadsman.cli import main
main.build_parser({}, "extender")
from extender.decider import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state.records import Hardware, Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

window = PeerLatency(30, 30, p50_ms=1.0, p95_ms=2.0, min_ms=0.5, jitter_ms=0.1)
state = NodeState(
    Identity("pod", 1, "10.0.0.1"),
    Heartbeat(1, 1, 60.0),
    Latency({"a": window, "b": window}),
    Hardware({"cpu_busy_ratio": 0.5}),
    1.0,
)
inputs = DecisionInputs(Snapshot({"a": state, "b": state}), Policy(), now=2.0)
pod = PodInfo("default", "p", labels={"delay_a": "50"})
print(score_nodes(pod, filter_nodes(pod, ("a", "b", "c"), inputs).kept, inputs).scores, file=sys.stderr)
print(*sys.modules)
"""


def test_an_extender_imports_nothing_that_it_does_not_need_and_deciding_adds_nothing() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    imported = set(ran.stdout.split())
    assert "extender.run" in imported
    assert imported.isdisjoint(NEVER), sorted(imported.intersection(NEVER))
