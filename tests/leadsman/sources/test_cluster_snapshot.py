"""What is read back from a snapshot file is what was written."""

import json
import re
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.model import ClusterPod
from leadsman.decision.inputs import DecisionInputs, DelayView, PolledMetrics, TasPolicies
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, RefusedPolicy
from leadsman.kube.names import BACKUP_ANNOTATION, DELAY_ANNOTATION
from leadsman.sources.cluster.cluster_follower import read_cluster
from leadsman.sources.cluster.pod_object import shared_parts
from leadsman.sources.cluster_snapshot import BadSnapshot, ClusterSnapshot, read_snapshot, snapshot_chunks
from leadsman.sources.delay.goldpinger import GoldpingerReport, GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from tests.changing_inputs import changing_inputs
from tests.leadsman.cluster import random_objects

ZONE = "topology.kubernetes.io/zone"
READY = ("True", "False", "Unknown")
AFFINITY = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}
SPREAD = {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
SCOPE = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
OBJECTS: list[random_objects.Object] = [
    {"kind": "PodDisruptionBudget", "metadata": {"name": "budget", "namespace": "other"}}
    | {"spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": 1}},
    {"kind": "ResourceQuota", "metadata": {"name": "quota", "namespace": "default"}, "status": {"used": {"pods": "1"}}}
    | {"spec": {"hard": {"pods": "9"}, "scopeSelector": {"matchExpressions": [SCOPE]}}},
    {"kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": random_objects.DRIVER}
    | {"volumeBindingMode": "WaitForFirstConsumer"}
    | {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]},
    *(
        {"kind": "Namespace", "metadata": {"name": each, "labels": {"team": each}}}
        for each in random_objects.NAMESPACES
    ),
]
"""One of each kind that random_objects does not make."""


def random_snapshot(seed: int) -> ClusterSnapshot:
    """Four to seven nodes, up to 14 pods."""
    rng = Random(seed)
    names = [f"n{number}" for number in range(rng.randint(4, 7))]
    items = [*OBJECTS, {"kind": "PersistentVolume"} | random_objects.volume(rng, "volume")]
    claim = random_objects.claim(rng, "claim", "volume")
    claim["metadata"]["namespace"] = "default"
    items.append({"kind": "PersistentVolumeClaim"} | claim)
    for number, name in enumerate(names):
        node = random_objects.node(rng, number)
        node["metadata"] |= {"uid": f"uid-{name}", "annotations": {"leadsman.dev/failover": "off"}}
        node["status"]["conditions"] = [{"type": "Ready", "status": rng.choice(READY)}]
        items += [{"kind": "Node"} | node, {"kind": "CSINode"} | random_objects.csi_node(rng, name, f"uid-{name}")]
    items += [{"kind": "Pod"} | _pod(rng, number, names) for number in range(rng.randint(4, 14))]
    cluster = read_cluster(json.dumps({"items": items}).encode())
    *_, inputs = changing_inputs(rng, 3)
    refused = {PolicyKey("lab", "bad"): RefusedPolicy(PolicyProblem("spec.x", "x is not allowed"), 2)}
    policies = TasPolicies(inputs.telemetry.policies.used, refused, True)
    telemetry = replace(inputs.telemetry, policies=policies)
    inputs = replace(inputs, delay_views=_delay_views(rng, names), telemetry=telemetry, estimates=None)
    return ClusterSnapshot(cluster, inputs, 1_800_000_000.25, {"Goldpinger": "not asked"})


def _pod(rng: Random, number: int, nodes: list[str]) -> random_objects.Object:
    """Of a ReplicaSet and with a bound; some with a claim, some with data on the node, affinity and spread."""
    node = rng.choice((*nodes, ""))
    pod = random_objects.pod(rng, f"web-{number}", ("claim",) if rng.random() < 0.1 else (), node)
    owner = {"kind": "ReplicaSet", "name": "web-5d", "uid": "owner", "controller": True}
    pod["metadata"] |= {"uid": f"pod-uid-{number}", "namespace": rng.choice(random_objects.NAMESPACES)}
    pod["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner]}
    if rng.random() < 0.5:
        pod["metadata"]["annotations"] = {DELAY_ANNOTATION: f"{rng.choice(nodes)}: 50", BACKUP_ANNOTATION: "rack"}
    pod["metadata"]["labels"][f"delay_{rng.choice(nodes)}"] = str(rng.randint(5, 60))
    if rng.random() < 0.2:
        pod["spec"]["volumes"].append({"name": "data", "emptyDir": {}})
        pod["spec"]["topologySpreadConstraints"] = [SPREAD]
        pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AFFINITY]}}
    pod["spec"]["priority"] = rng.choice((0, 1000))
    conditions = [{"type": "Ready", "status": "True"}] if node else []
    return pod | {"status": {"phase": "Running" if node else "Pending", "conditions": conditions}}


def _delay_views(rng: Random, nodes: list[str]) -> tuple[DelayView, ...]:
    reports = {
        node: GoldpingerReport({nodes[0]: rng.uniform(1.0, 9.0)}, frozenset({nodes[1]}), "") for node in nodes[2:]
    }
    square = np.array([[0.0 if one == other else rng.uniform(1.0, 40.0) for other in nodes] for one in nodes])
    views: tuple[DelayView, ...] = (
        GoldpingerView(reports, frozenset(nodes), 98.0, 160.0),
        DelayMatrix({node: number for number, node in enumerate(nodes)}, square),
    )
    return views[rng.randint(0, 2) :]


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
        (HEAD + ', "inputs": {"telemetry": {"loaded": true}}}', "$.inputs: KeyError('max_ages') is missing"),
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
