"""The example of a filter: critical pods not on nodes with memory errors."""

from typing import TYPE_CHECKING

from leadsman.plugin import Node, Pod
from leadsman.state.metric_names import MEMORY_ERRORS

if TYPE_CHECKING:
    from tests.examples.conftest import Example

NODES = [Node("good", True, hardware={MEMORY_ERRORS: 0.0}), Node("bad", True, hardware={MEMORY_ERRORS: 3.0})]
NODES += [Node("silent")]


def test_a_critical_pod_is_refused_where_memory_had_errors(example: "Example") -> None:
    assert example("ecc").Ecc().refuse(Pod("shop", "web", {"tier": "critical"}), NODES).keys() == {"bad"}


def test_other_pods_go_anywhere(example: "Example") -> None:
    assert example("ecc").Ecc().refuse(Pod("shop", "web"), NODES) == {}
