"""The import contracts of setup.cfg bite: an import that breaks one, direct or through another module, is found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "controller", "extender", "leadsman")

BREAKS = {
    "The core is pure": ("leadsman/decision/decide.py", "from leadsman.state.etcd_store import EtcdStore"),
    "Data flows one way": ("leadsman/cluster/model.py", "from leadsman.decision import decide"),
    "A decision reads one way": ("leadsman/decision/model.py", "from leadsman.decision.delay import bounds"),
    "A bound is evaluated once": (
        "leadsman/decision/delay/rtt_table.py",
        "import leadsman.decision.delay.delay_plugins",
    ),
    "Planners do not know each other": ("leadsman/planning/requeue.py", "import leadsman.planning.labels.label_plan"),
    "The label plan reads": (
        "leadsman/planning/labels/label_plan.py",
        "import leadsman.planning.labels.desired_labels",
    ),
    "Detection reads one way": ("leadsman/planning/failover/signals.py", "import leadsman.planning.failover.verdicts"),
    "The agent measures and never decides": ("agent/run.py", "from leadsman.decision import policy"),
    "The extender decides and never plans": ("extender/decider.py", "from leadsman.planning import requeue"),
    "The agent's rooms do not know each other": ("agent/pods/incidents.py", "from agent.hardware import kernel_files"),
    "The agent's rules are pure": ("agent/pods/incident_ledger.py", "import time"),
    "A collector reads the host's files": ("agent/hardware/compute.py", "import aiohttp"),
    "Estimates know numbers only": ("leadsman/network/layers.py", "from leadsman.state import records"),
    "Records, keys, codecs": ("leadsman/state/keys.py", "import os"),
    "The testbed stands alone": ("leadsman/testbed/etcd.py", "from leadsman.state import keys"),
    "The solver is imported where somebody waits": ("leadsman/cli/plan_optimise.py", "import ortools"),
    "The command line alone imports the kubernetes client": ("leadsman/kube/access.py", "import kubernetes"),
}
"""How each contract's name begins, and a line at the end of a module that breaks it."""


def test_the_tree_keeps_all_contracts_and_an_import_against_each_is_found(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    text = lint(tmp_path)
    assert " BROKEN" not in text
    contracts = [row for row in text.splitlines() if row.endswith(" KEPT")]
    assert [row for row in contracts if not row.startswith(tuple(BREAKS))] == []
    for module, line in BREAKS.values():
        with (tmp_path / module).open("a") as file:
            file.write(f"\n{line}\n")
    broken = [row for row in lint(tmp_path).splitlines() if " BROKEN" in row]
    assert [contract for contract in BREAKS if not any(row.startswith(contract) for row in broken)] == []


def lint(folder: Path) -> str:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    environment = {**os.environ, "COLUMNS": "200"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return ended.stdout + ended.stderr
