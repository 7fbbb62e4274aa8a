"""Row C4: pods that no bound ties to the edge prefer nodes of role cloud."""

from leadsman.decision.decide import decide
from leadsman.decision.delay.delay_scores import CloudScore
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import CloudPolicy, Policy, ScoresPolicy
from leadsman.state.records import Identity
from leadsman.state.snapshot import NodeState, Snapshot

NODES = ("edge-1", "cloud-1", "edge-2")


def facts(node_roles=None, **settings):
    """edge-2's agent says that it stands in zone west."""
    states = {"edge-2": NodeState(identity=Identity("pod", 1, "10.0.0.2", zone="west"))}
    return DecisionInputs(
        Snapshot(states), Policy(scores=ScoresPolicy(cloud=CloudPolicy(**settings))), 0.0, node_roles=node_roles or {}
    )


def pod(labels=None, annotations=None):
    return PodInfo("default", "pod-1", labels=labels or {}, annotations=annotations or {})


def values(found):
    part = CloudScore().score(pod(), NODES, found)
    return None if part is None else dict(part.values)


def test_a_pod_without_bounds_prefers_the_node_labelled_cloud() -> None:
    assert decide(pod(), NODES, facts({"cloud-1": "cloud", "edge-1": "edge"})).scores == {
        "edge-1": 0,
        "cloud-1": 10,
        "edge-2": 0,
    }


def test_a_pod_with_a_bound_is_left_alone() -> None:
    for bounded in (pod({"delay_edge-1": "25"}), pod({"delay_edge-1": "abc"})):
        assert CloudScore().score(bounded, NODES, facts({"cloud-1": "cloud"})) is None


def test_without_a_cloud_node_it_has_no_say() -> None:
    assert values(facts()) is None
    assert values(facts({"edge-1": "edge", "cloud-9": "cloud"})) is None


def test_nobody_asked_about_is_survived() -> None:
    assert CloudScore().score(pod(), (), facts({"cloud-1": "cloud"})) is None


def test_the_policy_may_name_cloud_nodes() -> None:
    assert values(facts(nodes=("cloud-*",))) == {"edge-1": 0.0, "cloud-1": 1.0, "edge-2": 0.0}


def test_the_policy_may_name_their_zones() -> None:
    assert values(facts(zones=("we?t",))) == {"edge-1": 0.0, "cloud-1": 0.0, "edge-2": 1.0}


def test_labels_and_names_add_up() -> None:
    assert values(facts({"edge-1": "cloud"}, nodes=("cloud-1",))) == {"edge-1": 1.0, "cloud-1": 1.0, "edge-2": 0.0}


def test_patterns_match_whole_names() -> None:
    assert values(facts(nodes=("cloud", "loud-1"))) is None


def test_a_weight_of_0_switches_it_off() -> None:
    assert values(facts({"cloud-1": "cloud"}, weight=0)) is None
