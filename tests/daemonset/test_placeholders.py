"""Pods that hold room are the first to go."""

from typing import TYPE_CHECKING

from leadsman.kube.names import PLACEHOLDER_PRIORITY_CLASS
from tests.daemonset.conftest import builds_with

if TYPE_CHECKING:
    from tests.daemonset.conftest import Objects

CLUSTER_AUTOSCALER_CUTOFF = -10
"""Its --expendable-pods-priority-cutoff."""


def test_placeholders_are_below_ordinary_pods_and_below_what_an_autoscaler_adds_nodes_for(
    objects: "Objects", build_name: str
) -> None:
    classes = {o["metadata"]["name"]: o for o in objects if o["kind"] == "PriorityClass"}
    if build_name not in builds_with("self-healing"):
        return
    placeholders = classes[PLACEHOLDER_PRIORITY_CLASS]
    assert placeholders["value"] < CLUSTER_AUTOSCALER_CUTOFF
    assert (placeholders["globalDefault"], placeholders["preemptionPolicy"]) == (False, "Never")
