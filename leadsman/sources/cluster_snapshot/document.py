"""The snapshot file as a typed document, and what it holds as the model has it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from leadsman.cluster.budgets import DisruptionBudget, Quota
from leadsman.cluster.model import Cluster
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.storage import Claim, StorageClass, Volume
from leadsman.decision.delay.views import DelayView, LastRoundTrips
from leadsman.decision.healing.model import SelfHealing
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import PolledMetrics, RefusedPolicy, SnapshotMetrics, TelemetryInputs
from leadsman.decision.telemetry.taspolicy import PolicyKey, TasPolicy
from leadsman.decision.workloads import PlacedPods, WorkloadIndex
from leadsman.kube.names import DOMAIN
from leadsman.sources.delay.goldpinger import GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.records import Reward
from leadsman.state.reward_view import AgedReward, RewardsByType
from leadsman.state.snapshot import NodeState

T = TypeVar("T", ClusterNode, ClusterPod)

API_VERSION, KIND = f"{DOMAIN}/v1alpha1", "ClusterSnapshot"


class ClusterSnapshot(Struct, frozen=True):
    """A cluster and what decisions on it are made on, at one moment.

    inputs: without estimates, which are fitted to the delays when somebody needs them.
    taken_at: Unix seconds; None: unknown.
    missing: what was not read → why.
    """

    cluster: Cluster
    inputs: DecisionInputs
    taken_at: float | None = None
    missing: Mapping[str, str] = {}


class _Part(Struct, frozen=True, omit_defaults=True):
    pass


class Agent(_Part, frozen=True):
    """What a node's agent wrote to etcd."""

    node: str
    state: NodeState


class NodeReward(_Part, frozen=True):
    """A node's reward of a pod type. seen_at: as AgedReward has it."""

    type: str
    node: str
    reward: Reward
    seen_at: float | None = None


class Workload(_Part, frozen=True):
    """Where the pods of a workload run: pairs of pod and node."""

    namespace: str
    kind: str
    name: str
    pods: PlacedPods = ()


class RefusedTelemetryPolicy(_Part, frozen=True):
    """A TASPolicy whose newest version cannot be used."""

    namespace: str
    name: str
    refused: RefusedPolicy


class MetricColumn(_Part, frozen=True):
    """The readings of a metric. values: node → billionths. read_at: node → seconds; None: all are fresh."""

    values: Mapping[str, int]
    read_at: Mapping[str, float] | None = None


class MetricTable(_Part, frozen=True):
    """The metrics of one source. columns: None: the agents' own, which are among their records."""

    columns: Mapping[str, MetricColumn] | None = None
    max_age_seconds: float = PolledMetrics().max_age_seconds


class Document(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file.

    clock_seconds: the monotonic clock when it was taken. Everything named …_at is in seconds of that clock, except
        created_at, at_seconds and last_incident_seconds, which are Unix seconds.
    pods: each a ClusterPod, decoded by itself so that pods of one template share what is equal.
    delay_matrix: node → its round trips in ms to the nodes in the order in which they stand here.
    workloads_read_at: None: workloads are not known.
    """

    api_version: str = field(name="apiVersion", default="")
    kind: str = ""
    taken_at: datetime | None = field(name="takenAt", default=None)
    missing: Mapping[str, str] = {}
    clock_seconds: float = 0.0
    policy: Policy = Policy()
    nodes: Sequence[ClusterNode] = ()
    pods: Sequence[Raw] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    budgets: Sequence[DisruptionBudget] = ()
    quotas: Sequence[Quota] = ()
    claims: Sequence[Claim] = ()
    volumes: Sequence[Volume] = ()
    storage_classes: Sequence[StorageClass] = ()
    workloads: Sequence[Workload] = ()
    workloads_read_at: float | None = None
    node_roles: Mapping[str, str] = {}
    agents: Sequence[Agent] = ()
    rewards: Sequence[NodeReward] = ()
    goldpinger: GoldpingerView | None = None
    delay_matrix: Mapping[str, Raw] = {}
    telemetry_policies: Sequence[TasPolicy] = ()
    refused_telemetry_policies: Sequence[RefusedTelemetryPolicy] = ()
    telemetry_policies_loaded: bool = False
    metrics: Sequence[MetricTable] = ()
    self_healing: SelfHealing = SelfHealing()
    last_round_trips: Mapping[str, LastRoundTrips] = {}


ENCODER = msgspec.json.Encoder(enc_hook=dict, order="deterministic")
"""Equal snapshots give equal bytes. enc_hook: a MappingProxyType is a mapping too."""


def document_of(snapshot: ClusterSnapshot) -> Document:
    """The file of a snapshot. ValueError when a source of delays has no place in it."""
    cluster, inputs, telemetry = snapshot.cluster, snapshot.inputs, snapshot.inputs.telemetry
    goldpinger, matrix = _delay_sources(inputs.delay_views)
    return Document(
        api_version=API_VERSION,
        kind=KIND,
        taken_at=None if snapshot.taken_at is None else datetime.fromtimestamp(snapshot.taken_at, UTC),
        missing=snapshot.missing,
        clock_seconds=inputs.now,
        policy=inputs.policy,
        nodes=tuple(map(_with_plain_dicts, cluster.nodes.values())),
        pods=tuple(Raw(ENCODER.encode(_with_plain_dicts(_without_images(pod)))) for pod in cluster.pods.values()),
        namespaces=cluster.namespaces,
        budgets=tuple(cluster.budgets.values()),
        quotas=tuple(cluster.quotas.values()),
        claims=tuple(cluster.storage.claims.values()),
        volumes=tuple(cluster.storage.volumes.values()),
        storage_classes=tuple(cluster.storage.classes.values()),
        workloads=_workloads(inputs.workloads),
        workloads_read_at=inputs.workloads.read_at,
        node_roles=inputs.node_roles,
        agents=tuple(Agent(node, state) for node, state in inputs.snapshot.nodes.items()),
        rewards=_rewards(inputs.snapshot.rewards),
        goldpinger=goldpinger,
        delay_matrix={} if matrix is None else _matrix_rows(matrix),
        telemetry_policies=tuple(telemetry.policies.used.values()),
        refused_telemetry_policies=tuple(
            RefusedTelemetryPolicy(key.namespace, key.name, refused)
            for key, refused in telemetry.policies.refused.items()
        ),
        telemetry_policies_loaded=telemetry.policies.loaded,
        metrics=_metrics(telemetry),
        self_healing=inputs.self_healing,
        last_round_trips=inputs.last_round_trips,
    )


def _with_plain_dicts(named: T) -> T:
    """The encoder leaves out an empty dict, and no other empty mapping."""
    return replace(named, labels=dict(named.labels), annotations=dict(named.annotations))


def _without_images(pod: ClusterPod) -> ClusterPod:
    """No plan on a snapshot reads them, and a private registry's names are nobody else's business."""
    return replace(pod, images=()) if pod.images else pod


def _delay_sources(views: Sequence[DelayView]) -> tuple[GoldpingerView | None, DelayMatrix | None]:
    goldpinger, matrix = None, None
    for view in views:
        if isinstance(view, GoldpingerView) and goldpinger is None:
            goldpinger = view
        elif isinstance(view, DelayMatrix) and matrix is None:
            matrix = view
        else:
            raise ValueError(f"delays from {view.source} cannot be written; one Goldpinger and one matrix can")
    return goldpinger, matrix


def _matrix_rows(matrix: DelayMatrix) -> dict[str, Raw]:
    """Rows and columns in the order of the nodes' names, in which the encoder writes them."""
    names = sorted(matrix.rows)
    order = [matrix.rows[name] for name in names]
    return {name: Raw(ENCODER.encode(matrix.rtt_ms[matrix.rows[name]][order].tolist())) for name in names}


def _workloads(index: WorkloadIndex) -> tuple[Workload, ...]:
    return tuple(
        Workload(namespace, kind, name, pods)
        for (namespace, name), kinds in index.by_name.items()
        for kind, pods in kinds.items()
    )


def workload_table(workloads: Sequence[Workload]) -> Mapping[tuple[str, str], Mapping[str, PlacedPods]]:
    """As WorkloadIndex.by_name."""
    table: dict[tuple[str, str], dict[str, PlacedPods]] = defaultdict(dict)
    for each in workloads:
        table[each.namespace, each.name][each.kind] = each.pods
    return MappingProxyType(dict(table))


def _rewards(by_type: RewardsByType) -> tuple[NodeReward, ...]:
    return tuple(
        NodeReward(pod_type, node, aged.reward, aged.seen_at)
        for pod_type, by_node in by_type.items()
        for node, aged in by_node.items()
    )


def rewards_by_type(rewards: Sequence[NodeReward]) -> RewardsByType:
    """As Snapshot.rewards."""
    table: dict[str, dict[str, AgedReward]] = defaultdict(dict)
    for each in rewards:
        table[each.type][each.node] = AgedReward(each.reward, each.seen_at)
    return MappingProxyType(dict(table))


def _metrics(telemetry: TelemetryInputs) -> tuple[MetricTable, ...]:
    return tuple(
        MetricTable()
        if isinstance(table, SnapshotMetrics)
        else MetricTable(
            {metric: MetricColumn(column.values, column.read_at) for metric, column in table.columns.items()},
            table.max_age_seconds,
        )
        for table in telemetry.tables
    )


def refused_policies(refused: Sequence[RefusedTelemetryPolicy]) -> Mapping[PolicyKey, RefusedPolicy]:
    """As TasPolicies.refused."""
    return MappingProxyType({PolicyKey(each.namespace, each.name): each.refused for each in refused})
