"""The example of a plugin: quiet nodes first, for pods that ask for it."""

import importlib.util
from pathlib import Path
from typing import Any

from leadsman.plugin import Node, Pod

FILE = Path(__file__).parents[2] / "examples/plugins/quiet.py"


def quiet() -> Any:
    spec = importlib.util.spec_from_file_location("quiet", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Quiet()


NODES = [Node("idle", True, hardware={"network_receive_bytes_per_second": 0.0}), Node("silent")]
NODES += [Node("busy", True, hardware={"network_receive_bytes_per_second": 200e6})]


def test_quiet_nodes_come_first_and_a_silent_one_is_unknown() -> None:
    assert quiet().score(Pod("shop", "web", {"network": "quiet"}), NODES) == {"idle": 1.0, "busy": 0.0}


def test_it_does_not_apply_to_other_pods() -> None:
    assert quiet().score(Pod("shop", "web"), NODES) == {}


def test_it_is_at_most_40_lines() -> None:
    assert len(FILE.read_text().splitlines()) <= 40
