"""The import contracts of setup.cfg bite: an import that breaks one, direct or through another module, is found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "controller", "extender", "leadsman")

PURE = "The core is pure"
LAYERS = "Data flows one way"
DECISION = "A decision reads one way"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    return tmp_path


def lint(folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    environment = {**os.environ, "COLUMNS": "200"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def test_the_tree_keeps_all_contracts(copy: Path) -> None:
    code, text = lint(copy)
    assert code == 0, text


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("leadsman/decision/decide.py", "from leadsman.state.etcd_store import EtcdStore", PURE),
        ("leadsman/planning/labels/label_plan.py", "import aiohttp", PURE),
        ("leadsman/cluster/model.py", "import time", PURE),
        ("leadsman/rewards/quality.py", "from leadsman.kube.client import ApiClient", PURE),
        ("leadsman/decision/columns.py", "import time", PURE),
        # Through another module: decision reads snapshots, and a snapshot decodes.
        ("leadsman/state/snapshot.py", "from leadsman.state.etcd_http import EtcdTransport", PURE),
        ("leadsman/runtime/lru.py", "import aiohttp", PURE),
        ("leadsman/decision/model.py", "from leadsman.decision.delay import bounds", DECISION),
        ("leadsman/decision/rewards/rewards_score.py", "from leadsman.decision.delay import bounds", DECISION),
        (
            "leadsman/decision/delay/rtt_table.py",
            "from leadsman.decision.delay import delay_plugins",
            "A bound is evaluated once",
        ),
        ("leadsman/decision/decide.py", "from leadsman.planning.labels import model", LAYERS),
        ("leadsman/runtime/lru.py", "from leadsman.state import keys", LAYERS),
        ("leadsman/cluster/pod.py", "from leadsman.decision import workloads", LAYERS),
        ("leadsman/sources/telemetry/device_metrics.py", "from leadsman.planning import device_health_plan", LAYERS),
        ("leadsman/published/moves.py", "from leadsman.planning.moves import model", LAYERS),
        (
            "leadsman/planning/requeue.py",
            "from leadsman.planning.labels import model",
            "Planners do not know each other",
        ),
        (
            "leadsman/planning/labels/label_plan.py",
            "from leadsman.planning.labels import limits",
            "The label plan reads",
        ),
        (
            "leadsman/planning/failover/observations.py",
            "from leadsman.planning.failover import verdicts",
            "Detection reads one way",
        ),
        ("agent/run.py", "from leadsman.decision import policy", "The agent measures and never decides"),
        ("extender/decider.py", "from leadsman.planning import requeue", "The extender decides and never plans"),
        (
            "agent/pods/incidents.py",
            "from agent.hardware import kernel_files",
            "The agent's rooms do not know each other",
        ),
        ("agent/new_module.py", "", "The agent's rooms do not know each other"),
        ("agent/pods/incident_ledger.py", "import time", "The agent's rules are pure"),
        ("agent/rtt/peer.py", "from agent.rtt import icmp", "The agent's rules are pure"),
        (
            "agent/peering/peer_selection.py",
            "from leadsman.state.etcd_store import EtcdStore",
            "The agent's rules are pure",
        ),
        ("agent/hardware/compute.py", "import psutil", "A collector reads the host's files"),
        ("leadsman/network/layers.py", "from leadsman.state import records", "Estimates know numbers only"),
        ("leadsman/state/keys.py", "import os", "Records, keys, codecs"),
        ("leadsman/cli/plan_optimise.py", "import ortools", "The solver is imported where somebody waits"),
        ("leadsman/kube/access.py", "import kubernetes", "The command line alone imports the kubernetes client"),
    ],
)
def test_an_import_against_a_contract_is_found(copy: Path, module: str, line: str, contract: str) -> None:
    path = copy / module
    with path.open("a") as file:
        file.write(f"\n{line}\n")
    code, text = lint(copy)
    assert code == 1, text
    broken = [row for row in text.splitlines() if " BROKEN" in row]
    assert any(row.startswith(contract) for row in broken), text
