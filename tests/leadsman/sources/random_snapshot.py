"""Small random snapshots with something of everything that a file can hold."""

from random import Random

import numpy as np
from msgspec.structs import replace

from leadsman.cluster.constraints import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    PodConstraints,
    Requirement,
    Taint,
    Toleration,
    TopologySpread,
)
from leadsman.cluster.model import (
    Claim,
    ClusterNode,
    ClusterPod,
    DisruptionBudget,
    Quota,
    QuotaScope,
    Storage,
    StorageClass,
    Volume,
    cluster_of,
)
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DelayView, TasPolicies
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, RefusedPolicy
from leadsman.kube.names import BACKUP_ANNOTATION, DELAY_ANNOTATION
from leadsman.sources.cluster_snapshot import ClusterSnapshot
from leadsman.sources.delay.goldpinger import GoldpingerReport, GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from tests.changing_inputs import NODES, changing_inputs

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
IN_ZONE = (NodeSelectorTerm((Requirement(ZONE, Operator.IN, ("zone-1",)),)),)
MODES, CLAIM = ("ReadWriteOnce",), ("shop", "claim")
CONSTRAINTS = (
    PodConstraints(),
    PodConstraints(
        node_selector=(("disk", "ssd"),),
        node_affinity=(NodeSelectorTerm((Requirement("slots", Operator.GT, ("3",)),)), *IN_ZONE),
        tolerations=(Toleration("dedicated", "Equal", "gpu"),),
        anti_affinity=(PodAffinityTerm(HOST, WEB, ("shop",), LabelSelector()),),
        spread=(TopologySpread(ZONE, 2, None),),
        host_ports=(HostPort(8080, "TCP", "10.1.2.3"),),
    ),
)


def random_snapshot(seed: int) -> ClusterSnapshot:
    """Four to seven nodes, up to 14 pods."""
    rng = Random(seed)
    names = rng.sample(NODES, rng.randint(4, 7))
    cluster = cluster_of(
        [_node(rng, name) for name in names],
        [_pod(rng, number, names) for number in range(rng.randint(4, 14))],
        budgets=[DisruptionBudget("shop", "budget", WEB, disruptions_allowed=1)],
        quotas=[Quota("lab", "quota", {"pods": 9}, {"pods": 1}, (QuotaScope("PriorityClass", "In", ("high",)),))],
        storage=Storage(
            {CLAIM: Claim("shop", "claim", "volume", "fast", MODES, 5)},
            {
                "volume": Volume(
                    "volume", "fast", MODES, 5, CLAIM, IN_ZONE, ((ZONE, ("zone-1",)),), "csi.example.com", "handle"
                )
            },
            {"fast": StorageClass("fast", True, "csi.example.com", IN_ZONE)},
        ),
        namespaces={name: {"kubernetes.io/metadata.name": name} for name in ("shop", "lab")},
    )
    *_, inputs = changing_inputs(rng, 3)
    refused = {PolicyKey("lab", "bad"): RefusedPolicy(PolicyProblem("spec.x", "x is not allowed"), 2)}
    policies = TasPolicies(inputs.telemetry.policies.used, refused, True)
    telemetry = replace(inputs.telemetry, policies=policies)
    inputs = replace(inputs, delay_views=_delay_views(rng, names), telemetry=telemetry, estimates=None)
    return ClusterSnapshot(cluster, inputs, 1_800_000_000.25, {"Goldpinger": "not asked"})


def _node(rng: Random, name: str) -> ClusterNode:
    return ClusterNode(
        name,
        uid=f"uid-{name}",
        labels={HOST: name, ZONE: rng.choice(("zone-1", "zone-2")), "slots": str(rng.randint(1, 9))},
        annotations={"leadsman.dev/failover": "off"} if rng.random() < 0.2 else {},
        taints=(Taint("dedicated", "gpu"),) if rng.random() < 0.2 else (),
        unschedulable=rng.random() < 0.1,
        allocatable=Resources(rng.choice((2000, 4000)), 4 << 30, 20, {"ephemeral-storage": 10 << 30}),
        ready=rng.choice((True, False, None)),
        attach_limits={"csi.example.com": 4},
    )


def _pod(rng: Random, number: int, nodes: list[str]) -> ClusterPod:
    node, line = rng.choice((*nodes, "")), rng.choice((f"{rng.choice(nodes)}: 50", ""))
    return ClusterPod(
        uid=f"pod-uid-{number}",
        namespace=rng.choice(("shop", "lab")),
        name=f"web-{number}",
        node=node,
        workload="deployment/web",
        owner_kind="ReplicaSet",
        owner_uid="owner",
        priority=rng.choice((0, 1000)),
        requests=Resources(rng.choice((100, 250)), rng.choice((1, 2)) << 29, 1),
        labels={"app": "web", f"delay_{rng.choice(nodes)}": str(rng.randint(5, 60))},
        annotations={DELAY_ANNOTATION: line, BACKUP_ANNOTATION: "rack"} if line else {},
        constraints=rng.choice(CONSTRAINTS),
        claims=("claim",) if rng.random() < 0.1 else (),
        local_volumes=rng.random() < 0.1,
        phase="Running" if node else "Pending",
        created_at=1_700_000_000.0 + number,
        ready=bool(node),
    )


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
