"""Nearest first: 1 at 0 ms, 1/2 at the median, falling with every ms, and a lower RTT never costs its node."""

from leadsman.decision.decide import decide
from leadsman.decision.delay.delay_plugins import CloudScore, NearestScore
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state.snapshot import Snapshot
from tests.leadsman.decision import make


def values(rtts: list[float]) -> list[float]:
    nodes = {f"n-{number}": ms for number, ms in enumerate(rtts)}
    part = NearestScore().score(
        make.pod(delay_ref="10000"),
        list(nodes),
        make.facts(make.confirmed({"ref": make.state(nodes), **dict.fromkeys(nodes, make.state())})),
    )
    return [part.values[node] for node in nodes]


def test_the_scale_is_the_candidates_own() -> None:
    assert values([0.0, 10.0, 20.0]) == [1.0, 0.5, 0.2]


def test_several_bounds_count_as_their_mean() -> None:
    states = {"a": make.state({"n": 0.0, "m": 9.0}), "b": make.state({"n": 10.0, "m": 10.0})}
    facts = make.facts(make.confirmed(states | dict.fromkeys("nm", make.state())))
    part = NearestScore().score(make.pod(delay_a="60", delay_b="60"), ["n", "m"], facts)
    assert part.values["n"] == 0.75


# Row C4: pods that no bound ties to the edge prefer nodes of role cloud.

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
