"""Reads a snapshot file. An error says where in it, what stands there and what is allowed."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct
from msgspec.structs import replace

from leadsman.cluster.constraints import PodConstraints
from leadsman.cluster.model import cluster_of
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.storage import Storage
from leadsman.decision.delay.views import DelayView
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry.model import PolledMetrics, Readings, SnapshotMetrics, TasPolicies, TelemetryInputs
from leadsman.decision.workloads import WorkloadIndex
from leadsman.network.measured_pairs import MAX_RTT_MS, Floats
from leadsman.runtime import decode_errors
from leadsman.runtime.decode_errors import UNREADABLE, shown
from leadsman.sources.cluster_snapshot.document import (
    API_VERSION,
    KIND,
    ClusterSnapshot,
    Document,
    MetricTable,
    refused_policies,
    rewards_by_type,
    workload_table,
)
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.snapshot import Snapshot

T = TypeVar("T")


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
    _check_unique("agents", "node", (agent.node for agent in document.agents))
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
    return DecisionInputs(
        Snapshot(
            nodes=MappingProxyType({agent.node: agent.state for agent in document.agents}),
            rewards=rewards_by_type(document.rewards),
        ),
        document.policy,
        document.clock_seconds,
        workloads=WorkloadIndex(workload_table(document.workloads), document.workloads_read_at),
        delay_views=tuple(views),
        telemetry=TelemetryInputs(
            TasPolicies(
                MappingProxyType({policy.key: policy for policy in document.telemetry_policies}),
                refused_policies(document.refused_telemetry_policies),
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
