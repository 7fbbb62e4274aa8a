"""Small random snapshots with something of everything that a file can hold. Every name begins with `acme`."""

from random import Random

import numpy as np

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
    LastRoundTrips,
    PlacedPod,
    PolledMetrics,
    Readings,
    RefusedPolicy,
    RoomHold,
    SelfHealing,
    SnapshotMetrics,
    TasPolicies,
    TelemetryInputs,
    WorkloadIndex,
)
from leadsman.decision.policy import CloudPolicy, Policy, ScoresPolicy
from leadsman.decision.telemetry.taspolicy import Operator as RuleOperator
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, Rule, RuleLabel, Strategy, TasPolicy
from leadsman.kube.names import BACKUP_ANNOTATION, DELAY_ANNOTATION
from leadsman.sources.cluster_snapshot import ClusterSnapshot
from leadsman.sources.delay.goldpinger import GoldpingerReport, GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.records import Hardware, Heartbeat, Identity, Latency, PeerLatency, Reachability, Reward
from leadsman.state.snapshot import AgedReward, NodeState, Snapshot

NOW = 5_000.0
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "kubernetes.io/hostname"
NAMESPACES = ("acme-shop", "acme-lab")
WORKLOADS = ("acme-web", "acme-db", "acme-cache")


def random_snapshot(seed: int) -> ClusterSnapshot:
    """Four to seven nodes, up to 14 pods."""
    rng = Random(seed)
    names = rng.sample(
        [f"acme-{place}-{number}" for place in ("paris", "tokio") for number in range(9)], rng.randint(4, 7)
    )
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
    return ClusterSnapshot(cluster, _inputs(rng, names, pods), 1_800_000_000.25, {"Goldpinger": "not asked"})


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


def _inputs(rng: Random, nodes: list[str], pods: list[ClusterPod]) -> DecisionInputs:
    placed = [pod for pod in pods if pod.node]
    workloads = {
        (namespace, workload): {
            "deployment": tuple(
                sorted(
                    PlacedPod(pod.name, pod.node)
                    for pod in placed
                    if (pod.namespace, pod.workload) == (namespace, f"deployment/{workload}")
                )
            )
        }
        for namespace in NAMESPACES
        for workload in WORKLOADS
    }
    return DecisionInputs(
        Snapshot({node: _agent(rng, node, nodes) for node in nodes}, rewards={"acme-web": {nodes[0]: _reward(rng)}}),
        Policy(scores=ScoresPolicy(cloud=CloudPolicy(nodes=("acme-paris-*",), zones=("acme-zone-2",)))),
        NOW,
        workloads=WorkloadIndex(workloads, NOW - 0.5),
        delay_views=_delay_views(rng, nodes),
        telemetry=_telemetry(nodes),
        node_roles={nodes[-1]: "cloud"},
        self_healing=SelfHealing(
            {nodes[1]: f"{nodes[1]} is dead"},
            {nodes[2]: (RoomHold("acme-owner-acme-shop-acme-web", NOW + 60.0),)},
            {nodes[2]: frozenset({"acme-owner-acme-shop-acme-web"})},
            frozenset({"acme-pod-uid-0"}),
            NOW - 1.0,
        ),
        last_round_trips={nodes[1]: LastRoundTrips(NOW - 30.0, {nodes[0]: 12.5})},
    )


def _agent(rng: Random, node: str, nodes: list[str]) -> NodeState:
    """One node in five has records of which nothing proves that they are new."""
    peers = {}
    for peer in nodes:
        if peer != node and rng.random() < 0.5:
            p50 = rng.uniform(1.0, 30.0)
            peers[peer] = PeerLatency(10, 9, p50, p50 * 1.5, p50 * 0.9, 0.5, 1.0)
    return NodeState(
        Identity("acme-agent-uid", rng.randint(1, 99), "10.9.8.7", "acme-zone-1", "acme-rack-a"),
        Heartbeat(7, rng.randint(1, 99), 5.0),
        Latency(peers),
        Hardware({"cpu_pressure_ratio": rng.random()}),
        None if rng.random() < 0.2 else NOW - rng.uniform(0.0, 10.0),
        Reachability(dict.fromkeys(peers, 0), probed=len(peers), answering=len(peers)),
    )


def _reward(rng: Random) -> AgedReward:
    return AgedReward(Reward(1_700_000_000.0, healthy=rng.uniform(0, 9), failed=2.0, last_cause="oom"), NOW - 3.0)


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
