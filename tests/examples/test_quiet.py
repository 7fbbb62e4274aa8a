"""The example of a plugin: quiet nodes first, for pods that ask for it."""

from typing import TYPE_CHECKING

from leadsman.plugin import Node, Pod

if TYPE_CHECKING:
    from tests.examples.conftest import Example

NODES = [Node("idle", True, hardware={"network_receive_bytes_per_second": 0.0}), Node("silent")]
NODES += [Node("busy", True, hardware={"network_receive_bytes_per_second": 200e6})]


def test_quiet_nodes_come_first_and_a_silent_one_is_unknown(example: "Example") -> None:
    assert example("quiet").Quiet().score(Pod("shop", "web", {"network": "quiet"}), NODES) == {"idle": 1.0, "busy": 0.0}


def test_it_does_not_apply_to_other_pods(example: "Example") -> None:
    assert example("quiet").Quiet().score(Pod("shop", "web"), NODES) == {}
