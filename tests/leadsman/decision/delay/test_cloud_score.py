"""Row C4: pods that no bound ties to the edge prefer nodes of role cloud."""

from leadsman.decision.decide import decide
from leadsman.decision.delay.delay_plugins import CloudScore
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state.snapshot import Snapshot

NODES = ("edge-1", "cloud-1", "edge-2")
POD = PodInfo("default", "pod-1")


def facts(**node_roles: str) -> DecisionInputs:
    return DecisionInputs(
        Snapshot(), Policy(), 0.0, node_roles={f"{name}-1": role for name, role in node_roles.items()}
    )


def test_a_pod_without_bounds_prefers_the_node_labelled_cloud() -> None:
    scores = decide(POD, NODES, facts(cloud="cloud", edge="edge")).scores
    assert scores == {"edge-1": 0, "cloud-1": 10, "edge-2": 0}


def test_a_pod_with_a_bound_is_left_alone() -> None:
    for value in ("25", "abc"):
        bounded = PodInfo("default", "pod-1", labels={"delay_edge-1": value})
        assert CloudScore().score(bounded, NODES, facts(cloud="cloud")) is None


def test_without_a_cloud_node_it_has_no_say() -> None:
    for roles in ({}, {"edge": "edge", "gone": "cloud"}):
        assert CloudScore().score(POD, NODES, facts(**roles)) is None
    assert CloudScore().score(POD, (), facts(cloud="cloud")) is None
