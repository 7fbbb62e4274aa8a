"""Small random snapshots with something of everything that a file can hold."""

from random import Random

import numpy as np
from msgspec.structs import replace

from leadsman.cluster.budgets import DisruptionBudget, Quota, QuotaScope
from leadsman.cluster.constraints import HostPort, PodAffinityTerm, PodConstraints, Taint, Toleration, TopologySpread
from leadsman.cluster.model import cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from leadsman.cluster.storage import Claim, Storage, StorageClass, Volume
from leadsman.decision.inputs import (
    DecisionInputs,
    DelayView,
    PolledMetrics,
    Readings,
    RefusedPolicy,
    SnapshotMetrics,
    TasPolicies,
    TelemetryInputs,
)
from leadsman.decision.telemetry.taspolicy import Operator as RuleOperator
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, Rule, RuleLabel, Strategy, TasPolicy
from leadsman.kube.names import BACKUP_ANNOTATION, DELAY_ANNOTATION
from leadsman.sources.cluster_snapshot import ClusterSnapshot
from leadsman.sources.delay.goldpinger import GoldpingerReport, GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from tests.changing_inputs import NODES, changing_inputs

NOW = 100.0
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "kubernetes.io/hostname"
NAMESPACES = ("acme-shop", "acme-lab")
WORKLOADS = ("acme-web", "acme-db", "acme-cache")


def random_snapshot(seed: int) -> ClusterSnapshot:
    """Four to seven nodes, up to 14 pods."""
    rng = Random(seed)
    names = rng.sample(NODES, rng.randint(4, 7))
    nodes = [_node(rng, name) for name in names]
    pods = [_pod(rng, number, names) for number in range(rng.randint(4, 14))]
    cluster = cluster_of(
        nodes,
        pods,
        budgets=[DisruptionBudget("acme-shop", "acme-budget", _selector("acme-web"), disruptions_allowed=1)],
        quotas=[
            Quota(
                "acme-lab", "acme-quota", {"pods": 9}, {"pods": 1}, (QuotaScope("PriorityClass", "In", ("acme-high",)),)
            )
        ],
        storage=Storage(
            {
                ("acme-shop", "acme-claim"): Claim(
                    "acme-shop", "acme-claim", "acme-volume", "acme-fast", ("ReadWriteOnce",), 5
                )
            },
            {"acme-volume": _volume()},
            {"acme-fast": StorageClass("acme-fast", True, "csi.example.com", (_term(ZONE, "acme-zone-1"),))},
        ),
        namespaces={name: {"kubernetes.io/metadata.name": name, "acme.io/team": "acme-team"} for name in NAMESPACES},
    )
    return ClusterSnapshot(cluster, _inputs(rng, names), 1_800_000_000.25, {"Goldpinger": "not asked"})


def _node(rng: Random, name: str) -> ClusterNode:
    zone = rng.choice(("acme-zone-1", "acme-zone-2"))
    labels = {
        HOST: name,
        ZONE: zone,
        RACK: rng.choice(("acme-rack-a", "acme-rack-b")),
        "acme.io/slots": str(rng.randint(1, 9)),
    }
    return ClusterNode(
        name,
        uid=f"acme-uid-{name}",
        labels=labels | ({"acme.io/disk": "acme-ssd"} if rng.random() < 0.7 else {}),
        annotations={"leadsman.dev/failover": "off"} if rng.random() < 0.2 else {},
        taints=(Taint("acme.io/dedicated", "acme-gpu"),) if rng.random() < 0.2 else (),
        unschedulable=rng.random() < 0.1,
        allocatable=Resources(rng.choice((2000, 4000)), rng.choice((4, 8)) << 30, 20, {"ephemeral-storage": 10 << 30}),
        ready=rng.choice((True, True, False, None)),
        attach_limits={"csi.example.com": 4},
    )


def _pod(rng: Random, number: int, nodes: list[str]) -> ClusterPod:
    namespace, workload = rng.choice(NAMESPACES), rng.choice(WORKLOADS)
    node = rng.choice((*nodes, ""))
    to = rng.choice(nodes)
    labels = {
        "app": workload,
        "acme.io/tier": rng.choice(("acme-front", "acme-back")),
        f"delay_{to}": str(rng.randint(5, 60)),
    }
    line = rng.choice((f"{rng.choice(nodes)}: 50", f"deployment/{WORKLOADS[0]}: 60 nearest accept  # near acme", ""))
    return ClusterPod(
        uid=f"acme-pod-uid-{number}",
        namespace=namespace,
        name=f"{workload}-{number}",
        node=node,
        workload=f"deployment/{workload}",
        owner_kind="ReplicaSet",
        owner_uid=f"acme-owner-{namespace}-{workload}",
        priority=rng.choice((0, 1000)),
        priority_class="acme-high",
        requests=Resources(rng.choice((100, 250)), rng.choice((1, 2)) << 29, 1),
        labels=labels if rng.random() < 0.8 else {"app": workload},
        annotations={DELAY_ANNOTATION: line, BACKUP_ANNOTATION: "rack"} if line else {},
        constraints=_constraints(rng) if rng.random() < 0.4 else PodConstraints(),
        claims=("acme-claim",) if rng.random() < 0.1 else (),
        local_volumes=rng.random() < 0.1,
        phase="Running" if node else "Pending",
        created_at=1_700_000_000.0 + number,
        ready=bool(node),
    )


def _constraints(rng: Random) -> PodConstraints:
    web = _selector("acme-web")
    return PodConstraints(
        node_selector=(("acme.io/disk", "acme-ssd"),) if rng.random() < 0.3 else (),
        node_affinity=(
            NodeSelectorTerm((Requirement("acme.io/slots", Operator.GT, ("3",)),)),
            _term(ZONE, "acme-zone-1"),
        )
        if rng.random() < 0.5
        else None,
        tolerations=(Toleration("acme.io/dedicated", "Equal", "acme-gpu"),),
        anti_affinity=(PodAffinityTerm(HOST, web, NAMESPACES, _selector("acme-team", "acme.io/team")),)
        if rng.random() < 0.3
        else (),
        spread=(TopologySpread(RACK, 2, web),) if rng.random() < 0.3 else (),
        host_ports=(HostPort(8080, "TCP", "10.1.2.3"),) if rng.random() < 0.2 else (),
    )


def _selector(value: str, key: str = "app") -> LabelSelector:
    return LabelSelector((Requirement(key, Operator.IN, (value,)),))


def _term(key: str, value: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(key, Operator.IN, (value,)),))


def _volume() -> Volume:
    return Volume(
        "acme-volume",
        "acme-fast",
        ("ReadWriteOnce",),
        5,
        ("acme-shop", "acme-claim"),
        (_term(ZONE, "acme-zone-1"),),
        ((ZONE, ("acme-zone-1",)),),
        "csi.example.com",
        "acme-handle",
    )


def _inputs(rng: Random, nodes: list[str]) -> DecisionInputs:
    """Those of a recording's tests, with the delays and policies that a file has a place for."""
    *_, inputs = changing_inputs(rng, 3)
    fields = {"delay_views": _delay_views(rng, nodes), "telemetry": _telemetry(nodes), "estimates": None}
    return replace(inputs, **fields)


def _delay_views(rng: Random, nodes: list[str]) -> tuple[DelayView, ...]:
    reports = {
        node: GoldpingerReport({nodes[0]: rng.uniform(1.0, 9.0)}, frozenset({nodes[1]}), "") for node in nodes[2:]
    }
    goldpinger = GoldpingerView(reports, frozenset(nodes), NOW - 2.0, NOW + 60.0)
    square = np.array([[0.0 if one == other else rng.uniform(1.0, 40.0) for other in nodes] for one in nodes])
    matrix = DelayMatrix({node: number for number, node in enumerate(nodes)}, square)
    views: tuple[DelayView, ...] = (goldpinger, matrix)
    return views[rng.randint(0, 2) :]


def _telemetry(nodes: list[str]) -> TelemetryInputs:
    rule = Rule("node_power_watts", RuleOperator.GREATER_THAN, 10, (RuleLabel("acme-power", "acme-high"),))
    policy = TasPolicy("acme-shop", "acme-policy", labeling=Strategy((rule,)), generation=3)
    column = Readings(dict.fromkeys(nodes, 7 * 10**9), dict.fromkeys(nodes, NOW - 1.0), NOW - 1.0)
    return TelemetryInputs(
        TasPolicies(
            {policy.key: policy},
            {PolicyKey("acme-lab", "acme-bad"): RefusedPolicy(PolicyProblem("spec.acme", "acme is not allowed"), 2)},
            True,
        ),
        (SnapshotMetrics(), PolledMetrics({"node_power_watts": column})),
    )
