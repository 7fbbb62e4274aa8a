"""Labels and lines → bounds: exact names, plain decimal milliseconds, nothing guessed, nothing left out."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import filter_nodes
from leadsman.decision.delay import bounds
from leadsman.decision.delay.bounds import (
    MAX_ANNOTATION_CHARACTERS,
    MAX_BOUNDS,
    MAX_TARGET_NODES,
    BadBound,
    DelayBound,
    NoTarget,
    ReplicaMode,
    Target,
    parse_bounds,
    resolve_target,
)
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DelayPolicy, EstimateMode, Policy
from leadsman.kube.names import DELAY_ANNOTATION, ESTIMATE_ANNOTATION, REPLICAS_ANNOTATION
from leadsman.runtime.text_table import one_line
from tests.leadsman.decision import make


def of(labels: dict[str, str], **annotations: str) -> tuple[DelayBound, ...]:
    return bounds.parse_bounds(PodInfo("ns", "p", labels=labels, annotations=annotations))


def lines(text: str, **others: str) -> tuple[DelayBound, ...]:
    return of({}, **{DELAY_ANNOTATION: text}, **others)


@pytest.mark.parametrize(("value", "ms"), [("25", 25.0), ("2.5", 2.5), ("0", 0.0), ("0.05", 0.05), ("007", 7.0)])
def test_a_plain_decimal_number_is_a_bound(value: str, ms: float) -> None:
    assert of({"delay_edge-1": value}) == lines(f"edge-1: {value}") == (DelayBound("edge-1", ms),)


@pytest.mark.parametrize(
    "value", ["-1", "abc", "", "nan", "inf", "1e3", "+5", " 5", "5 ", "5\n", ".5", "5.", "1_000", "25ms", "٣", "0x5"]
)
def test_any_other_value_is_refused_with_label_and_value(value: str) -> None:
    with pytest.raises(BadBound) as caught:
        of({"app": "x", "delay_edge-1": value})
    assert (
        str(caught.value)
        == f'label delay_edge-1: "{one_line(value)}" is not valid; use milliseconds such as "25" or "2.5"'
    )


def test_a_bound_above_what_any_probe_waits_for_is_refused_with_the_reason() -> None:
    assert of({"delay_edge-1": "10000"})[0].ms == 10_000
    with pytest.raises(BadBound, match='label delay_edge-1: "10001" is more than 10000 ms, the longest measured'):
        of({"delay_edge-1": "10001"})


def test_a_label_that_names_nothing_is_refused() -> None:
    with pytest.raises(BadBound, match="label delay_ names no node or workload; write"):
        of({"delay_": "5"})


def test_all_labels_count_and_dots_belong_to_the_name() -> None:
    labels = {"delay_b.example.com": "2", "app": "x", "delay_a": "1"}
    assert of(labels) == (DelayBound("a", 1.0), DelayBound("b.example.com", 2.0))


def test_each_line_is_a_bound_with_its_own_options() -> None:
    text = """
        # close to the shop, and to any cache
        node/edge-1: 25
        deployment/web:2.5 all reject
        shop/statefulset/db : 10  accept   nearest   # the nearest replica
    """
    assert lines(text) == (
        DelayBound("node/edge-1", 25.0),
        DelayBound("deployment/web", 2.5, ReplicaMode.ALL, EstimateMode.REJECT),
        DelayBound("shop/statefulset/db", 10.0, ReplicaMode.NEAREST, EstimateMode.ACCEPT),
    )


def test_the_pods_defaults_are_for_labels_and_lines_that_say_nothing_else() -> None:
    defaults = {REPLICAS_ANNOTATION: "nearest", ESTIMATE_ANNOTATION: "reject", DELAY_ANNOTATION: "b: 2 all accept"}
    assert of({"delay_a": "1"}, **defaults) == (
        DelayBound("a", 1.0, ReplicaMode.NEAREST, EstimateMode.REJECT),
        DelayBound("b", 2.0, ReplicaMode.ALL, EstimateMode.ACCEPT),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nweb 25", 'line 2: "web 25" is not valid; write "<from>: <ms>", such as "deployment/web: 2.5"'),
        ("a:", 'line 1: "a:" is not valid; write "<from>: <ms>"'),
        ("a: -1", 'line 1: "-1" is not valid; use milliseconds such as "25" or "2.5"'),
        ("a: 25ms", 'line 1: "25ms" is not valid; use milliseconds'),
        ("a: 5 closest", 'line 1: "closest" is not valid; use all, nearest, accept, upper-bound, reject'),
        ("a: 5 reject accept", 'line 1: "accept" is not valid; use all, nearest'),
        ("a: 5 nearest reject all", 'line 1: "all" is not valid; use nothing more'),
        ("A_b: 5", 'line 1: "A_b" is not valid; use a name, kind/name or namespace/kind/name'),
        ("a/b/c/d: 5", 'line 1: "a/b/c/d" is not valid; use a name'),
        ("/b: 5", 'line 1: "/b" is not valid; use a name'),
        ("a, b: 5", 'line 1: "a, b: 5" is not valid; write "<from>: <ms>"'),
        ("a: x" + "y" * 99, f'"x{"y" * 62}…" is not valid'),
        ("x" * (MAX_ANNOTATION_CHARACTERS + 1), "has 4,097 characters; at most 4,096 are allowed"),
        ("a: 1\n" * (MAX_BOUNDS + 1), "has 33 delay bounds; at most 32 are allowed"),
    ],
)
def test_a_bad_line_is_named_with_what_stands_there_and_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(BadBound) as caught:
        lines(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "allowed"),
    [(REPLICAS_ANNOTATION, "all, nearest"), (ESTIMATE_ANNOTATION, "accept, upper-bound, reject")],
)
def test_a_bad_default_is_refused_only_where_there_is_a_bound(annotation: str, allowed: str) -> None:
    with pytest.raises(BadBound, match=f'annotation {annotation}: "some" is not valid; use {allowed}'):
        of({"delay_a": "1"}, **{annotation: "some"})
    assert of({}, **{annotation: "some"}) == ()


def test_an_annotation_without_a_line_asks_for_nothing() -> None:
    """A chart's blank value."""
    for text, asks in (("", False), ("  \n# edge-1: 5\n", False), ("nonsense", True)):
        pod = PodInfo("default", "p", annotations={DELAY_ANNOTATION: text, ESTIMATE_ANNOTATION: "misspelt"})
        assert pod.has_delay_bounds is asks
        assert asks or parse_bounds(pod) == ()


@given(st.dictionaries(st.text(max_size=20).map(lambda name: f"delay_{name}"), st.text(max_size=70)), st.text())
def test_any_text_is_bounds_or_a_bad_bound(labels: dict[str, str], text: str) -> None:
    with suppress(BadBound):
        assert all(0 <= bound.ms < float("inf") for bound in of(labels, **{DELAY_ANNOTATION: text}))


@given(st.from_regex(r"[a-z0-9./: #]{0,30}", fullmatch=True))
def test_a_line_is_never_dropped(text: str) -> None:
    """Whatever stands before a comment is a bound or refused."""
    with suppress(BadBound):
        assert len(lines(text)) == bool(text.partition("#")[0].strip())


# A bound is to a node or to the nodes of a workload; what is missing is refused with the reason, never dropped.

POD = PodInfo("default", "pod-1", workload="deployment/mine")


def found(
    reference: str, facts: DecisionInputs, pod: PodInfo = POD, replicas: ReplicaMode = ReplicaMode.ALL
) -> Target | NoTarget:
    return resolve_target(DelayBound(reference, 5.0, replicas), pod, ["asked"], facts)


@pytest.fixture
def shop() -> DecisionInputs:
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


@pytest.mark.parametrize(("reference", "node"), [("edge-1", "edge-1"), ("node/edge-1", "edge-1"), ("asked", "asked")])
def test_a_node_of_the_state_and_a_candidate_that_just_joined_are_found(
    shop: DecisionInputs, reference: str, node: str
) -> None:
    assert found(reference, shop) == Target(node, (node,))


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
        # A part of a name, or the name of a pod, is no name.
        ("edge", "no such node or workload edge"),
        ("ap", "no such node or workload ap"),
        ("api-1", "no such node or workload api-1"),
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
        ("x", False, False, "x cannot be looked up: no node data has arrived yet, and workloads are not listed"),
        ("x", True, False, "no such node x; workloads are not listed"),
        ("node/x", False, True, "node x cannot be looked up: no node data has arrived yet"),
    ],
)
def test_nothing_known_yet_is_another_reason(reference: str, nodes: bool, workloads: bool, reason: str) -> None:
    places = make.workloads(read_at=make.NOW if workloads else None)
    assert found(reference, make.facts({"edge-1": make.state()} if nodes else {}, workloads=places)) == NoTarget(reason)


@pytest.mark.parametrize("estimate", EstimateMode)
def test_a_missing_reference_keeps_the_pod_waiting_and_the_other_bounds_do_not_help(
    shop: DecisionInputs, estimate: EstimateMode
) -> None:
    """The original dropped the constraint and sent the pod to the cloud."""
    inputs = structs.replace(shop, policy=Policy(delay=DelayPolicy(estimate=estimate)))
    judged = filter_nodes(make.pod(**{"delay_gone": "99", "delay_edge-1": "99"}), ["edge-1", "web"], inputs)
    assert judged.kept == ()
    assert judged.refused["edge-1"].reason == "no such node or workload gone"


def test_the_first_pod_of_a_workload_that_names_itself_fits_anywhere() -> None:
    """Or it would wait for itself without end; the second is held to the first."""
    pod = PodInfo("default", "mine-1", labels={"delay_mine": "5"}, workload="deployment/mine")
    for workloads in ({}, {"deployment_mine": []}, {"deployment_mine": ["mine-1@edge-9"]}):
        facts = make.facts({"edge-1": make.state()}, workloads=make.workloads(**workloads))
        assert filter_nodes(pod, ["edge-1"], facts).kept == ("edge-1",)
    facts = make.facts({"edge-1": make.state()}, workloads=make.workloads(deployment_mine=["mine-2@edge-9"]))
    assert filter_nodes(pod, ["edge-1"], facts).kept == ()


@pytest.mark.parametrize(
    ("workload", "owner", "own"),
    [
        ("rollout_mine", "replicaset/mine-6d4b5", True),
        ("cronjob_mine", "job/mine-29738880", True),
        ("rollout_mine", "replicaset/mine-canary", False),
        ("rollout_mine", "replicaset/other-6d4b5", False),
        ("cronjob_mine", "job/mine-again", False),
        ("deployment_mine", "statefulset/mine-1", False),
        ("deployment_mine", "job/mine-29738880", False),
        ("statefulset_mine", "replicaset/mine-2", False),
        ("cronjob_mine", "job/mine-1", False),
    ],
)
def test_what_made_the_pod_s_replica_set_or_job_is_its_own_workload(workload: str, owner: str, own: bool) -> None:
    pod = PodInfo("default", "mine-x", labels={"delay_mine": "5"}, workload=owner)
    nowhere: dict[str, Any] = {workload: []}
    facts = make.facts({"edge-1": make.state()}, workloads=make.workloads(**nowhere))
    assert filter_nodes(pod, ["edge-1"], facts).kept == (("edge-1",) if own else ())


def test_a_workload_on_too_many_nodes_is_refused() -> None:
    pods = [f"p-{number}@n-{number}" for number in range(MAX_TARGET_NODES + 1)]
    facts = make.facts({}, workloads=make.workloads(daemonset_log=pods))
    assert found("log", facts) == NoTarget("workload daemonset/log runs on 17 nodes; a delay bound allows at most 16")
