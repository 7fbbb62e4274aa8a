"""What is read back from a snapshot file is what was written."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.pod import ClusterPod
from leadsman.decision.inputs import DecisionInputs, PolledMetrics
from leadsman.sources.cluster.pod_object import shared_parts
from leadsman.sources.cluster_snapshot import ClusterSnapshot, read_snapshot, snapshot_chunks
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
