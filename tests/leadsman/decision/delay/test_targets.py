"""A bound is to a node or to the nodes of a workload; what is missing is refused with the reason, never dropped."""

import pytest

from leadsman.decision.decide import filter_nodes
from leadsman.decision.delay.bounds import (
    MAX_TARGET_NODES,
    DelayBound,
    NoTarget,
    ReplicaMode,
    Target,
    resolve_target,
)
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from tests.leadsman.decision.conftest import Make

POD = PodInfo("default", "pod-1", workload="deployment/mine")


def found(
    reference: str, facts: DecisionInputs, pod: PodInfo = POD, replicas: ReplicaMode = ReplicaMode.ALL
) -> Target | NoTarget:
    return resolve_target(DelayBound(reference, 5.0, replicas), pod, ["asked"], facts)


@pytest.fixture
def shop(make: Make) -> DecisionInputs:
    """Nodes edge-1 and web; workloads, one of them named like the node."""
    places = make.workloads(
        deployment_web=["web-1@edge-3"],
        deployment_api=["api-1@edge-2", "api-2@edge-1", "api-3@edge-2"],
        deployment_new=[],
        deployment_two=["two-1@edge-1"],
        job_two=["two-2@edge-2"],
        deployment_mine=["mine-1@edge-1"],
    )
    return make.facts({"edge-1": make.state(), "web": make.state()}, workloads=places)


@pytest.mark.parametrize("reference", ["edge-1", "node/edge-1"])
def test_a_node_of_the_state_is_found(shop: DecisionInputs, reference: str) -> None:
    assert found(reference, shop) == Target("edge-1", ("edge-1",))


def test_a_workload_is_found_with_each_node_once(shop: DecisionInputs) -> None:
    assert found("api", shop) == Target(
        "deployment/api", ("edge-1", "edge-2"), pods={"edge-1": "api-2", "edge-2": "api-1"}
    )
    assert found("deployment/api", shop) == found("api", shop)


def test_a_workload_of_another_namespace_is_told_with_it(shop: DecisionInputs) -> None:
    referent = found("default/deployment/api", shop, PodInfo("other", "pod-1"))
    assert isinstance(referent, Target)
    assert referent.name == "default/deployment/api"
    assert found("api", shop, PodInfo("other", "pod-1")) == NoTarget("no such node or workload api")


def test_a_node_comes_before_a_workload_of_its_name(shop: DecisionInputs) -> None:
    assert found("web", shop) == Target("web", ("web",))
    assert found("deployment/web", shop) == Target("deployment/web", ("edge-3",), pods={"edge-3": "web-1"})


def test_a_name_of_two_workloads_is_refused_with_the_way_out(shop: DecisionInputs) -> None:
    assert found("two", shop) == NoTarget(
        "two is ambiguous: deployment/two or job/two; name one with its kind in the annotation leadsman.dev/delay"
    )


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("gone", "no such node or workload gone"),
        ("node/gone", "no such node gone"),
        ("node/api", "no such node api"),
        ("job/web", "no such workload job/web"),
        ("new", "workload deployment/new has no placed pod"),
        ("default/deployment/new", "workload default/deployment/new has no placed pod"),
    ],
)
def test_what_is_missing_is_refused_with_the_reason(shop: DecisionInputs, reference: str, reason: str) -> None:
    assert found(reference, shop) == NoTarget(reason)


@pytest.mark.parametrize(
    ("reference", "nodes", "workloads", "reason"),
    [
        ("x", False, False, "x cannot be looked up: no node data has arrived yet, and workloads are not listed yet"),
        ("x", True, False, "no such node x; workloads are not listed yet"),
        ("node/x", False, True, "node x cannot be looked up: no node data has arrived yet"),
    ],
)
def test_nothing_known_yet_is_another_reason(
    make: Make, reference: str, nodes: bool, workloads: bool, reason: str
) -> None:
    places = make.workloads(read_at=make.now if workloads else None)
    assert found(reference, make.facts({"edge-1": make.state()} if nodes else {}, workloads=places)) == NoTarget(reason)


def test_a_missing_reference_keeps_the_pod_waiting_and_the_other_bounds_do_not_help(shop: DecisionInputs) -> None:
    """The original dropped the constraint and sent the pod to the cloud."""
    judged = filter_nodes(
        PodInfo("default", "p", labels={"delay_gone": "99", "delay_edge-1": "99"}), ["edge-1", "web"], shop
    )
    assert judged.kept == ()
    assert {refusal.reason for refusal in judged.refused.values()} == {
        "delay to edge-1 was not measured",
        "no such node or workload gone",
    }


def test_the_first_pod_of_a_workload_that_names_itself_fits_anywhere(make: Make) -> None:
    """Or it would wait for itself without end; the second is held to the first."""
    pod = PodInfo("default", "mine-1", labels={"delay_mine": "5"}, workload="deployment/mine")
    for workloads in ({}, {"deployment_mine": []}, {"deployment_mine": ["mine-1@edge-9"]}):
        facts = make.facts({"edge-1": make.state()}, workloads=make.workloads(**workloads))
        assert filter_nodes(pod, ["edge-1"], facts).kept == ("edge-1",)
    facts = make.facts({"edge-1": make.state()}, workloads=make.workloads(deployment_mine=["mine-2@edge-9"]))
    assert filter_nodes(pod, ["edge-1"], facts).kept == ()


def test_a_workload_on_too_many_nodes_is_refused(make: Make) -> None:
    pods = [f"p-{number}@n-{number}" for number in range(MAX_TARGET_NODES + 1)]
    facts = make.facts({}, workloads=make.workloads(daemonset_log=pods))
    assert found("log", facts) == NoTarget("workload daemonset/log runs on 17 nodes; a delay bound allows at most 16")
