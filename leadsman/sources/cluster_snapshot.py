"""The snapshot file: a whole cluster and what decisions are made on, as they were at one moment.

`snapshot_chunks` writes it and `read_snapshot` reads it: JSON with a line for each node, pod and record, for diff and
grep. `Document` is the format, which docs/snapshot.md has for users; what the values mean is defined where they live.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from leadsman.cluster.budgets import DisruptionBudget, Quota
from leadsman.cluster.constraints import PodConstraints
from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.storage import Claim, Storage, StorageClass, Volume
from leadsman.decision.inputs import (
    DecisionInputs,
    DelayView,
    LastRoundTrips,
    PlacedPods,
    PolledMetrics,
    Readings,
    RefusedPolicy,
    SelfHealing,
    SnapshotMetrics,
    TasPolicies,
    TelemetryInputs,
    WorkloadIndex,
)
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.taspolicy import PolicyKey, TasPolicy
from leadsman.kube.names import DOMAIN
from leadsman.network.measured_pairs import MAX_RTT_MS, Floats
from leadsman.runtime import decode_errors
from leadsman.runtime.decode_errors import UNREADABLE, shown
from leadsman.sources.delay.goldpinger import GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.snapshot import AgedReward, NodeState, Snapshot

T = TypeVar("T")
Named = TypeVar("Named", ClusterNode, ClusterPod)

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
    agents: node → what its agent wrote to etcd. rewards: pod type → node → its reward.
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
    agents: Mapping[str, NodeState] = {}
    rewards: Mapping[str, Mapping[str, AgedReward]] = {}
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


def snapshot_chunks(snapshot: ClusterSnapshot) -> Iterator[bytes]:
    """The file, piece by piece; equal snapshots give equal bytes. ValueError when delays have no place in it."""
    document, empty = _document(snapshot), Document()
    opening = b"{\n"
    for name, key in zip(Document.__struct_fields__, Document.__struct_encode_fields__, strict=True):
        value = getattr(document, name)
        if value != getattr(empty, name):
            yield opening + ENCODER.encode(key) + b": "
            yield from _value(value)
            opening = b",\n"
    yield b"\n}\n"


def _value(value: object) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        lines = (ENCODER.encode(key) + b": " + ENCODER.encode(value[key]) for key in sorted(value))
        yield from _listed(b"{", lines, b"}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from _listed(b"[", (ENCODER.encode(each) for each in value), b"]")
    else:
        yield ENCODER.encode(value)


def _listed(opening: bytes, lines: Iterator[bytes], closing: bytes) -> Iterator[bytes]:
    for line in lines:
        yield opening + b"\n" + line
        opening = b","
    yield b"\n" + closing


def _document(snapshot: ClusterSnapshot) -> Document:
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
        pods=tuple(Raw(ENCODER.encode(_with_plain_dicts(pod))) for pod in cluster.pods.values()),
        namespaces=cluster.namespaces,
        budgets=tuple(cluster.budgets.values()),
        quotas=tuple(cluster.quotas.values()),
        claims=tuple(cluster.storage.claims.values()),
        volumes=tuple(cluster.storage.volumes.values()),
        storage_classes=tuple(cluster.storage.classes.values()),
        workloads=_workloads(inputs.workloads),
        workloads_read_at=inputs.workloads.read_at,
        node_roles=inputs.node_roles,
        agents=inputs.snapshot.nodes,
        rewards=inputs.snapshot.rewards,
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


def _with_plain_dicts(named: Named) -> Named:
    """The encoder leaves out an empty dict, and no other empty mapping."""
    return replace(named, labels=dict(named.labels), annotations=dict(named.annotations))


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


class BadSnapshot(ValueError):
    """The bytes are no snapshot file. Names the place, what stands there and what is allowed."""


class _Kind(Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""


_KIND, _DOCUMENT = msgspec.json.Decoder(_Kind), msgspec.json.Decoder(Document)
_POD, _ROW = msgspec.json.Decoder(ClusterPod), msgspec.json.Decoder(list[float])


def read_snapshot(data: bytes) -> ClusterSnapshot:
    """The snapshot of a file. BadSnapshot."""
    _check_kind(_decoded(_KIND, data, "$"))
    document = _decoded(_DOCUMENT, data, "$")
    _check_unique("nodes", "name", (node.name for node in document.nodes))
    shared = _SharedParts()
    pods = [shared.pod(_decoded(_POD, raw, f"$.pods[{number}]")) for number, raw in enumerate(document.pods)]
    _check_unique("pods", "uid", (pod.uid for pod in pods))
    cluster = cluster_of(
        document.nodes,
        pods,
        budgets=document.budgets,
        quotas=document.quotas,
        storage=Storage(
            {(each.namespace, each.name): each for each in document.claims},
            {each.name: each for each in document.volumes},
            {each.name: each for each in document.storage_classes},
        ),
        namespaces=document.namespaces,
    )
    taken_at = None if document.taken_at is None else document.taken_at.timestamp()
    return ClusterSnapshot(cluster, _inputs(document), taken_at, document.missing)


def _check_kind(read: _Kind) -> None:
    for name, got, allowed in (("apiVersion", read.api_version, API_VERSION), ("kind", read.kind, KIND)):
        if got != allowed:
            raise BadSnapshot(f"$.{name}: got {shown(got)}; must be {shown(allowed)}, as `leadsman snapshot` writes it")


def _check_unique(field: str, name: str, values: Iterable[str]) -> None:
    first: dict[str, int] = {}
    for number, value in enumerate(values):
        if value in first:
            raise BadSnapshot(
                f"$.{field}[{number}].{name}: got {shown(value)}, as in $.{field}[{first[value]}]; name each once"
            )
        first[value] = number


class _SharedParts:
    """One object for equal labels, constraints and requests: pods of one template have the same."""

    def __init__(self) -> None:
        self._labels: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._constraints: dict[PodConstraints, PodConstraints] = {}
        self._requests: dict[tuple[Any, ...], Resources] = {}

    def pod(self, pod: ClusterPod) -> ClusterPod:
        requests = pod.requests
        amounts = (requests.cpu_millis, requests.memory_bytes, requests.pods, *sorted(requests.extended.items()))
        return replace(
            pod,
            labels=self._labels.setdefault(tuple(sorted(pod.labels.items())), pod.labels),
            constraints=self._constraints.setdefault(pod.constraints, pod.constraints),
            requests=self._requests.setdefault(amounts, requests),
        )


def _inputs(document: Document) -> DecisionInputs:
    views: list[DelayView] = []
    if document.goldpinger is not None:
        views.append(document.goldpinger)
    if document.delay_matrix:
        views.append(_matrix(document.delay_matrix))
    workloads: dict[tuple[str, str], dict[str, PlacedPods]] = defaultdict(dict)
    for workload in document.workloads:
        workloads[workload.namespace, workload.name][workload.kind] = workload.pods
    refused = {PolicyKey(each.namespace, each.name): each.refused for each in document.refused_telemetry_policies}
    return DecisionInputs(
        Snapshot(MappingProxyType(dict(document.agents)), rewards=MappingProxyType(dict(document.rewards))),
        document.policy,
        document.clock_seconds,
        workloads=WorkloadIndex(MappingProxyType(dict(workloads)), document.workloads_read_at),
        delay_views=tuple(views),
        telemetry=TelemetryInputs(
            TasPolicies(
                MappingProxyType({policy.key: policy for policy in document.telemetry_policies}),
                MappingProxyType(refused),
                document.telemetry_policies_loaded,
            ),
            tuple(map(_table, document.metrics)),
        ),
        node_roles=document.node_roles,
        self_healing=document.self_healing,
        last_round_trips=document.last_round_trips,
    )


def _table(table: MetricTable) -> PolledMetrics | SnapshotMetrics:
    if table.columns is None:
        return SnapshotMetrics()
    columns = {
        metric: Readings(column.values, column.read_at, min((column.read_at or {}).values(), default=float("inf")))
        for metric, column in table.columns.items()
    }
    return PolledMetrics(MappingProxyType(columns), table.max_age_seconds)


def _matrix(rows: Mapping[str, Raw]) -> DelayMatrix:
    names = list(rows)
    square: Floats = np.empty((len(names), len(names)))
    for number, (name, raw) in enumerate(rows.items()):
        square[number] = _matrix_row(_decoded(_ROW, raw, f"$.delay_matrix.{name}"), name, names)
    np.fill_diagonal(square, 0)
    return DelayMatrix({name: number for number, name in enumerate(names)}, square)


def _matrix_row(row: list[float], name: str, names: Sequence[str]) -> list[float]:
    if len(row) != len(names):
        raise BadSnapshot(f"$.delay_matrix.{name}: got {len(row)} round trips; must be {len(names)}, one for each node")
    for column, value in enumerate(row):
        if not 0 <= value <= MAX_RTT_MS:
            place = f"$.delay_matrix.{name}[{column}], to {names[column]}"
            raise BadSnapshot(f"{place}: got {value:g}; must be milliseconds, 0 to {MAX_RTT_MS:g}")
    return row


def _decoded(decoder: "msgspec.json.Decoder[T]", data: bytes | Raw, place: str) -> T:
    """place: of the data in the file, for the error."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadSnapshot(place + _fault(error, bytes(data)).removeprefix("$")) from error
    except UNREADABLE as error:
        where = decode_errors.explain_syntax(error, bytes(data))
        raise BadSnapshot(f"{where}; must be JSON, as `leadsman snapshot` writes it") from error


def _fault(error: msgspec.ValidationError, data: bytes) -> str:
    try:
        return decode_errors.explain_value(error, msgspec.json.decode(data)) + _allowed(error)
    except UNREADABLE:  # the first fault that was met need not be the only one
        return str(decode_errors.explain(error))


def _allowed(error: msgspec.ValidationError) -> str:
    fields = ", ".join(Document.__struct_encode_fields__)
    is_ours = "unknown field" in str(error) and decode_errors.explain(error).path == "$"
    return f"; allowed are {fields}" if is_ours else ""
