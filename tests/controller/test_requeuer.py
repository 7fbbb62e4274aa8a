"""Pods that were refused are retried when the cause goes; the verdicts are the extender's own."""

import pytest

from controller.requeuer import TOUCH_DELAYS_SECONDS, RequeueBook, Requeuer, is_unschedulable, pod_signature
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.kube.objects import Condition, ObjectMeta, OwnerReference, Pod, PodStatus
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state.records import Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot
from leadsman.testbed.api_objects import parse_path

NODES = ("a", "b", "c")
UNSCHEDULABLE = Condition("PodScheduled", "False", "Unschedulable")


def facts(now=100.0, **to_a):
    """to_a: node → its RTT to node a, in ms."""
    windows = {node: PeerLatency(10, 10, p50_ms=ms, p95_ms=ms, min_ms=ms) for node, ms in to_a.items()}
    state = NodeState(heartbeat=Heartbeat(1, 1, 5.0), latency=Latency(windows), changed_at=now - 1)
    return DecisionInputs(Snapshot({"a": state}), Policy(), now)


def pod(name="p", conditions=(UNSCHEDULABLE,), **labels):
    metadata = ObjectMeta(name, "ns", labels=labels or {"delay_a": "25"})
    return Pod(metadata, status=PodStatus("Pending", conditions=conditions))


@pytest.fixture
def book():
    """One that has seen the pod refused on b and c, and whose first touches are over."""
    one = RequeueBook()
    one.observe([pod()], NODES, facts(b=80.0, c=80.0))
    one.next_touch(1000.0)
    return one


def test_while_nothing_changes_nobody_is_woken(book):
    book.observe([pod()], NODES, facts(b=81.0, c=79.0))
    assert book.next_touch(1000.0) == ""


def test_a_node_that_healed_is_touched_at_once(book):
    book.observe([pod()], NODES, facts(b=5.0, c=80.0))
    assert book.next_touch(100.0) == "b"


def test_a_gain_is_told_again_in_case_the_extender_saw_it_later(book):
    book.observe([pod()], NODES, facts(b=5.0, c=80.0))
    due = [second for second in range(60) if book.next_touch(100.0 + second)]
    assert due == list(TOUCH_DELAYS_SECONDS)


def test_it_is_not_told_again_once_the_node_is_refused_again(book):
    book.observe([pod()], NODES, facts(b=5.0, c=80.0))
    assert book.next_touch(100.0) == "b"
    book.observe([pod()], NODES, facts(b=80.0, c=80.0))
    assert book.next_touch(1000.0) == ""


def test_a_node_more_counts_though_others_passed_before(book):
    """Those may be full."""
    book.observe([pod()], NODES, facts(b=5.0, c=80.0))
    book.next_touch(1000.0)
    book.observe([pod()], NODES, facts(b=5.0, c=5.0))
    assert book.next_touch(100.0) == "c"


def test_a_pod_that_is_seen_first_after_the_cause_has_gone_is_woken():
    book = RequeueBook()
    book.observe([pod()], NODES, facts(b=5.0))
    assert book.next_touch(100.0) == "a"


def test_pods_alike_are_judged_once(book, monkeypatch):
    import controller.requeuer as module

    asked, real = [], module.filter_nodes
    monkeypatch.setattr(module, "filter_nodes", lambda *args: asked.append(args) or real(*args))
    book.observe([pod()] * 50, NODES, facts(b=80.0))
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("one", "can"),
    [
        (pod(), True),
        (pod(**{"telemetry-policy": "p"}), True),
        (pod(app="web"), True),
        (pod(conditions=()), False),
        (pod(conditions=(Condition("PodScheduled", "True"),)), False),
        (pod(conditions=(Condition("PodScheduled", "False", "SchedulingGated"),)), False),
    ],
)
def test_only_pods_that_were_tried_in_vain_are_looked_at(one, can):
    assert is_unschedulable(one) is can


def test_pods_of_one_replica_set_are_of_one_kind():
    owner = OwnerReference("ReplicaSet", "web-5d", controller=True)
    one, other = (
        ObjectMeta(name, "ns", labels={"a": "b"}, owner_references=(owner,)) for name in ("web-5d-1", "web-5d-2")
    )
    assert pod_signature(one) == pod_signature(other)
    assert pod_signature(one) != pod_signature(ObjectMeta("web-5d-1", "ns", labels={"a": "b"}))


def test_a_pod_that_asks_nothing_of_us_is_not_woken_when_first_seen():
    book = RequeueBook()
    book.observe([pod(app="web")], NODES, facts(b=5.0))
    assert book.next_touch(1000.0) == ""


def test_a_plugin_that_fails_is_no_end_of_the_controller(book, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr("controller.requeuer.filter_nodes", broken)
    for _ in range(3):
        book.observe([pod()], NODES, facts(b=5.0))
    assert book.next_touch(1000.0) == ""
    assert caplog.text.count("cannot filter nodes for waiting pods") == 1


@pytest.fixture
def waker(client, api):
    for node in NODES:
        api.put(f"/api/v1/nodes/{node}", {"metadata": {}})
    state = {"facts": facts(b=80.0, c=80.0)}
    pods = {("ns", "p"): pod()}
    one = Requeuer(client, lambda: pods, lambda: NODES, lambda: state["facts"], TokenBucket(1e-9, 1))
    return one, state, pods


def touched(api):
    return [
        a.path.rpartition("/")[2]
        for a in api.requests
        if a.verb == "patch" and RETRIED_AT_ANNOTATION in a.body["metadata"]["annotations"]
    ]


async def test_the_node_s_annotation_is_touched_and_nothing_else(waker, api):
    one, *_ = waker
    await one.sync()
    assert touched(api) == ["a"]
    assert set(api.requests[-1].body["metadata"]) == {"annotations"}


async def test_a_touch_removes_the_annotation_of_the_last_release(waker, api):
    one, *_ = waker
    old = {"leadsman/retried-at": "2026-01-01T00:00:00Z", "other": "stays"}
    api.put("/api/v1/nodes/a", {"metadata": {"annotations": old}})
    await one.sync()
    node = api.objects.get(parse_path("/api/v1/nodes/a"))
    assert set(node["metadata"]["annotations"]) == {RETRIED_AT_ANNOTATION, "other"}


async def test_the_log_says_which_node_was_touched(waker, caplog):
    caplog.set_level("INFO")
    one, *_ = waker
    await one.sync()
    assert "annotated node a so that kube-scheduler tries refused pods again" in caplog.text


async def test_touches_are_rate_limited(waker, api):
    one, state, _ = waker
    await one.sync()
    state["facts"] = facts(b=5.0, c=80.0)
    await one.sync()
    assert touched(api) == ["a"], "the second waits for its turn"
    assert one._pending_node == "b"


async def test_a_touch_that_failed_is_made_later(waker, api):
    one, *_ = waker
    api.fail("patch", 503)
    await one.sync()
    assert one.touched == 0
    one._rate = TokenBucket(1e9, 1)
    await one.sync()
    assert touched(api) == ["a", "a"]
    assert one.touched == 1


async def test_without_waiting_pods_nothing_is_done(waker, api):
    one, _, pods = waker
    pods.clear()
    await one.sync()
    assert api.requests == []
