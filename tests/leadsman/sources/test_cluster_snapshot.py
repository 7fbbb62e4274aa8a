"""What is read back from a snapshot file is what was written."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.model import ClusterPod
from leadsman.decision.inputs import DecisionInputs, PolledMetrics
from leadsman.sources.cluster.pod_object import shared_parts
from leadsman.sources.cluster_snapshot import BadSnapshot, ClusterSnapshot, read_snapshot, snapshot_chunks
from tests.leadsman.sources.random_snapshot import random_snapshot


def written(snapshot: ClusterSnapshot) -> bytes:
    return b"".join(snapshot_chunks(snapshot))


@given(st.integers(0, 10_000))
@settings(max_examples=50)
def test_a_snapshot_is_read_back_as_it_was_and_written_in_the_same_bytes(seed: int) -> None:
    kept = shared_parts(ClusterPod("uid", "shop", "web"))  # Equal pods share its parts, which are the defaults.
    before = random_snapshot(seed)
    after = read_snapshot(written(before))
    for field in ("nodes", "pods", "budgets", "quotas", "storage", "namespaces"):
        assert getattr(after.cluster, field) == getattr(before.cluster, field)
    for node in ("", *before.cluster.nodes):
        assert after.cluster.pods_by_node.get(node) == before.cluster.pods_by_node.get(node)
    assert (after.taken_at, after.missing) == (before.taken_at, before.missing)
    one, other = before.inputs, after.inputs
    for field in ("now", "policy", "workloads", "node_roles", "self_healing", "last_round_trips", "devices"):
        assert getattr(other, field) == getattr(one, field)
    assert (other.snapshot.nodes, other.snapshot.rewards) == (one.snapshot.nodes, one.snapshot.rewards)
    assert other.telemetry.policies == one.telemetry.policies
    assert (metrics(other), delays(other)) == (metrics(one), delays(one))
    assert written(after) == written(before)
    assert not kept.labels


def metrics(inputs: DecisionInputs) -> list[object]:
    """Readings and the rest as plain values: Readings are the same only when they are one object."""
    return [
        (
            each.max_age_seconds,
            {name: (one.values, one.read_at, one.oldest_read_at) for name, one in each.columns.items()},
        )
        if isinstance(each, PolledMetrics)
        else each
        for each in inputs.telemetry.tables
    ]


def delays(inputs: DecisionInputs) -> list[object]:
    nodes = sorted(inputs.snapshot.nodes)
    return [
        (each.source, set(each.nodes), each.read_at, each.fresh_until, [each.row(node) for node in nodes])
        for each in inputs.delay_views
    ]


def test_pods_of_one_template_share_labels_constraints_and_requests() -> None:
    before = random_snapshot(3)
    pod = next(iter(before.cluster.pods.values()))
    twins = before.cluster.changed(pods={uid: replace(pod, uid=uid) for uid in ("one", "other")})
    after = read_snapshot(written(replace(before, cluster=twins))).cluster.pods
    assert after["one"].labels is after["other"].labels
    assert after["one"].constraints is after["other"].constraints
    assert after["one"].requests is after["other"].requests


# A snapshot file that cannot be used is refused with the place in it, what stands there and what is allowed.

HEAD = '{"apiVersion": "leadsman.dev/v1alpha1", "kind": "ClusterSnapshot"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: Input data was truncated; must be JSON"),
        (HEAD + ',\n"pods": [{]}', "line 2, column 11: JSON is malformed: expected '\"'"),
        ("{}", '$.apiVersion: got ""; must be "leadsman.dev/v1alpha1"'),
        ('{"apiVersion": "leadsman.dev/v9"}', '$.apiVersion: got "leadsman.dev/v9"; must be "leadsman.dev/v1alpha1"'),
        (HEAD + ', "podz": []}', "$: object contains unknown field podz"),
        (HEAD + ', "nodes": [{"name": "a"}, {"name": 7}]}', "$.nodes[1].name: got 7; expected str, got int"),
        (HEAD + ', "nodes": [{"name": "a"}, {"name": "a"}]}', '$.nodes[1].name: got "a", as in $.nodes[0]; name each'),
        (
            HEAD + ', "pods": [{"uid": "u", "namespace": "n", "name": "p", "requests": {"cpu_millis": "1"}}]}',
            '$.pods[0].requests.cpu_millis: got "1"; expected int, got str',
        ),
        (
            HEAD + ', "inputs": {"policy": {"": {"delay": {"statistic": "p99"}}}}}',
            '$.inputs.policy..delay.statistic: got "p99"; invalid enum value',
        ),
        (HEAD + ', "inputs": {"colours": {"a": 1}}}', "$.inputs.colours.a: no such table"),
        (
            HEAD + ', "inputs": {"telemetry": {"loaded": true}}}',
            "$.inputs: KeyError('max_ages') is missing",
        ),
        (
            HEAD + ', "inputs": {"snapshot.nodes": {"a": {"latency": {"peers": {"b": {"sent": 1, "received": 2}}}}}}}',
            "$.inputs.snapshot.nodes.a.latency.peers[...]: received 2 of 1 probes sent",
        ),
        (
            HEAD + ', "delay_matrix": {"a": [0, 1], "b": [-2, 0]}}',
            "$.delay_matrix.b[0], to a: got -2; must be milliseconds, 0 to 60000",
        ),
        (
            HEAD + ', "delay_matrix": {"a": [0, 1], "b": [2]}}',
            "$.delay_matrix.b: got 1 round trips; must be 2, one for",
        ),
    ],
)
def test_it_says_where_what_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(BadSnapshot, match=re.escape(message)):
        read_snapshot(text.encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BadSnapshot, match="must be JSON"):
        read_snapshot(HEAD.encode() + b', "missing": {"\xff": "x"}}')
