"""Reads and writes the snapshot file: a whole cluster and what decisions are made on, as they were at one moment.

`snapshot_chunks` writes it and `read_snapshot` reads it: JSON with a line for each node, pod and record, for diff and
grep. `Document` is the format, which docs/replay.md has for users; what the values mean is defined where they live.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from leadsman.cluster.model import (
    Claim,
    Cluster,
    ClusterNode,
    ClusterPod,
    DisruptionBudget,
    Quota,
    Storage,
    StorageClass,
    Volume,
    cluster_of,
)
from leadsman.decision.inputs import DecisionInputs, DelayView
from leadsman.decision.policy import Policy
from leadsman.kube.names import DOMAIN
from leadsman.network.measured_pairs import MAX_RTT_MS, Floats
from leadsman.runtime import decode_errors
from leadsman.runtime.decode_errors import UNREADABLE, shown
from leadsman.sources.cluster.pod_object import shared_parts
from leadsman.sources.delay.goldpinger import GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.sources.recording.tables import FIELDS, Table, field_of, plain_row, read_row, tables_of
from leadsman.state.snapshot import Snapshot

T = TypeVar("T")
Named = TypeVar("Named", ClusterNode, ClusterPod)

PAIR_KEYED = ("workloads.by_name", "telemetry.used", "telemetry.refused")
"""Tables whose keys are a namespace and a name."""

API_VERSION, KIND = f"{DOMAIN}/v1alpha1", "ClusterSnapshot"


class ClusterSnapshot(Struct, frozen=True):
    """A cluster and the inputs of decisions on it, at one moment.

    inputs: without estimates, which are fitted to the delays when somebody needs them.
    taken_at: Unix seconds; None: unknown.
    missing: what was not read → why.
    """

    cluster: Cluster
    inputs: DecisionInputs
    taken_at: float | None = None
    missing: Mapping[str, str] = {}


class Document(Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a snapshot file.

    clock_seconds: the monotonic clock when it was taken. Everything named …_at is in seconds of that clock, except
        created_at, at_seconds and last_incident_seconds, which are Unix seconds.
    pods: each a ClusterPod, decoded by itself so that pods of one template share what is equal.
    inputs: table → key → row, as `recording.tables` takes DecisionInputs apart; where a key is a pair, with a slash.
    delay_matrix: node → its round trips in ms to the nodes in the order in which they stand here.
    """

    api_version: str = field(name="apiVersion", default="")
    kind: str = ""
    taken_at: datetime | None = field(name="takenAt", default=None)
    missing: Mapping[str, str] = {}
    clock_seconds: float = 0.0
    nodes: Sequence[ClusterNode] = ()
    pods: Sequence[Raw] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    budgets: Sequence[DisruptionBudget] = ()
    quotas: Sequence[Quota] = ()
    claims: Sequence[Claim] = ()
    volumes: Sequence[Volume] = ()
    storage_classes: Sequence[StorageClass] = ()
    goldpinger: GoldpingerView | None = None
    delay_matrix: Mapping[str, Raw] = {}
    inputs: Mapping[str, Mapping[str, Raw]] = {}


ENCODER = msgspec.json.Encoder(enc_hook=dict, order="deterministic")
"""Equal snapshots give equal bytes. enc_hook: a MappingProxyType is a mapping too."""


def snapshot_chunks(snapshot: ClusterSnapshot) -> Iterator[bytes]:
    """Yields the file piece by piece; equal snapshots give equal bytes. Raises ValueError when delays have no place in
    it."""
    document, empty = _document(snapshot), Document()
    opening = b"{\n"
    for name, key in zip(Document.__struct_fields__, Document.__struct_encode_fields__, strict=True):
        value = getattr(document, name)
        if value != getattr(empty, name):
            yield opening + ENCODER.encode(key) + b": "
            yield from _tables(document.inputs) if name == "inputs" else _value(value)
            opening = b",\n"
    yield b"\n}\n"


def _tables(tables: Mapping[str, Mapping[str, Raw]]) -> Iterator[bytes]:
    opening = b"{"
    for name, rows in sorted(tables.items()):
        yield opening + b"\n" + ENCODER.encode(name) + b": "
        yield from _value(rows)
        opening = b","
    yield b"\n}"


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
    """Returns the file of a snapshot. Raises ValueError when a source of delays has no place in it."""
    cluster, inputs = snapshot.cluster, snapshot.inputs
    goldpinger, matrix = _delay_sources(inputs.delay_views)
    return Document(
        api_version=API_VERSION,
        kind=KIND,
        taken_at=None if snapshot.taken_at is None else datetime.fromtimestamp(snapshot.taken_at, UTC),
        missing=snapshot.missing,
        clock_seconds=inputs.now,
        nodes=tuple(map(_with_plain_dicts, cluster.nodes.values())),
        pods=tuple(Raw(ENCODER.encode(_with_own_defaults(_with_plain_dicts(pod)))) for pod in cluster.pods.values()),
        namespaces=cluster.namespaces,
        budgets=tuple(cluster.budgets.values()),
        quotas=tuple(cluster.quotas.values()),
        claims=tuple(cluster.storage.claims.values()),
        volumes=tuple(cluster.storage.volumes.values()),
        storage_classes=tuple(cluster.storage.classes.values()),
        goldpinger=goldpinger,
        delay_matrix={} if matrix is None else _matrix_rows(matrix),
        inputs={
            name: _rows(table)
            for each in FIELDS
            for name, table in tables_of(each, getattr(inputs, each)).items()
            if table
        },
    )


def _rows(table: Table) -> dict[str, Raw]:
    return {
        key if isinstance(key, str) else "/".join(key): Raw(ENCODER.encode(plain_row(row)))
        for key, row in table.items()
    }


def _with_plain_dicts(named: Named) -> Named:
    """The encoder leaves out an empty dict, and no other empty mapping."""
    return replace(named, labels=dict(named.labels), annotations=dict(named.annotations))


_NO_POD = ClusterPod("", "", "")


def _with_own_defaults(pod: ClusterPod) -> ClusterPod:
    """The encoder leaves out a default that is the same object, and writes one that is equal."""
    equal = {
        each: default
        for each in ("requests", "constraints")
        if getattr(pod, each) == (default := getattr(_NO_POD, each))
    }
    return replace(pod, **equal) if equal else pod


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


class BadSnapshot(ValueError):
    """The bytes are no snapshot file; the text names the place, what stands there and what is allowed."""


class _Kind(Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""


_KIND, _DOCUMENT = msgspec.json.Decoder(_Kind), msgspec.json.Decoder(Document)
_POD, _ROW = msgspec.json.Decoder(ClusterPod), msgspec.json.Decoder(list[float])


def read_snapshot(data: bytes) -> ClusterSnapshot:
    """Reads the snapshot from a file's bytes. Raises BadSnapshot."""
    head = _decoded(_KIND, data, "$")
    for name, got, allowed in (("apiVersion", head.api_version, API_VERSION), ("kind", head.kind, KIND)):
        if got != allowed:
            raise BadSnapshot(f"$.{name}: got {shown(got)}; must be {shown(allowed)}, as `leadsman snapshot` writes it")
    document = _decoded(_DOCUMENT, data, "$")
    _check_unique("nodes", "name", (node.name for node in document.nodes))
    pods = [shared_parts(_decoded(_POD, raw, f"$.pods[{number}]")) for number, raw in enumerate(document.pods)]
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


def _check_unique(field: str, name: str, values: Iterable[str]) -> None:
    first: dict[str, int] = {}
    for number, value in enumerate(values):
        if value in first:
            raise BadSnapshot(
                f"$.{field}[{number}].{name}: got {shown(value)}, as in $.{field}[{first[value]}]; name each once"
            )
        first[value] = number


def _inputs(document: Document) -> DecisionInputs:
    views: list[DelayView] = []
    if document.goldpinger is not None:
        views.append(document.goldpinger)
    if document.delay_matrix:
        views.append(_matrix(document.delay_matrix))
    tables = {name: _table(name, rows) for name, rows in document.inputs.items()}
    fields = {name.partition(".")[0] for name in tables}
    try:
        read = {each: field_of(each, defaultdict(dict, tables)) for each in FIELDS if each in fields}
    except (KeyError, TypeError) as error:
        raise BadSnapshot(f"$.inputs: {error!r} is missing or of no use; take the snapshot again") from error
    read = {"snapshot": Snapshot(), "policy": Policy(), **read}
    return DecisionInputs(**read, now=document.clock_seconds, delay_views=tuple(views))


def _table(name: str, rows: Mapping[str, Raw]) -> Table:
    """Reads a table of the snapshot. Raises BadSnapshot."""
    place, table = f"$.inputs.{name}", dict[Any, Any]()
    for key, raw in rows.items():
        try:
            table[tuple(key.split("/", 1)) if name in PAIR_KEYED else key] = read_row(name, key, raw, msgspec.json)
        except KeyError as error:
            raise BadSnapshot(f"{place}.{key}: no such table or key of the inputs") from error
        except UNREADABLE as error:
            raise _bad(error, raw, f"{place}.{key}") from error
    return table


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
    """Decodes a part of the file.

    place: of the data in the file, for the error.
    """
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise _bad(error, data, place) from error


def _bad(error: Exception, data: bytes | Raw, place: str) -> BadSnapshot:
    if isinstance(error, msgspec.ValidationError):
        return BadSnapshot(place + _fault(error, bytes(data)).removeprefix("$"))
    return BadSnapshot(
        f"{decode_errors.explain_syntax(error, bytes(data))}; must be JSON, as `leadsman snapshot` writes it"
    )


def _fault(error: msgspec.ValidationError, data: bytes) -> str:
    try:
        return decode_errors.explain_value(error, msgspec.json.decode(data))
    except UNREADABLE:  # the first fault that was met need not be the only one
        return str(decode_errors.explain(error))
