"""The parsers that a stranger reaches, each with the errors that it documents.

wire        bodies of filter, prioritize, preempt and bind; bounds of the pod in them
records     values and keys in etcd, etcd's own responses
policies    the policy file, selectors of devices, TASPolicies
plans       plans of moves that are handed over
sources     Goldpinger's answers, matrix files, snapshot files, recordings
kube        pods, nodes, Events, Leases, lists and lines of a watch; what the agent and the follower make of pods
pods        pages of metrics scraped from pods, their annotations
probes      ICMP messages
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from agent.peering import peer_selection
from agent.pods import quality_observer
from agent.pods.incident_ledger import CountedTotals, IncidentLedger
from agent.pods.incidents import run_seconds
from agent.rtt.icmp import IpVersion, decode_reply, strip_ipv4_header
from extender.api import nodes
from extender.api.view import make_view
from extender.wire.bad_request import BadRequest
from extender.wire.verbs import read_args, read_binding, read_preemption
from leadsman.decision import policy
from leadsman.decision.delay.bounds import BadBound, parse_bounds
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.telemetry.taspolicy import BadTasPolicy, parse_taspolicy
from leadsman.kube import quantity
from leadsman.kube.bounded_metadata import BoundedAnnotations
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import ApiError, MalformedResponse, error_from_response
from leadsman.kube.leader_election import Lease
from leadsman.kube.names import DELAY_ANNOTATION, PATH_ANNOTATION, PORT_ANNOTATION, SERIES_ANNOTATION
from leadsman.kube.object_changes import WatchBatch
from leadsman.kube.objects import Event, Node, ObjectMeta, Pod, PodStatus
from leadsman.network.measured_pairs import MAX_RTT_MS
from leadsman.published.documents import BadDocument
from leadsman.published.moves import MOVE_PLAN
from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.sources.cluster.device_objects import CapacityFields, DeviceAttribute, DeviceFields
from leadsman.sources.cluster.device_selectors import BadSelector, Selector
from leadsman.sources.cluster_snapshot import BadSnapshot, read_snapshot, snapshot_chunks
from leadsman.sources.delay.goldpinger import BadCheckAll, parse_check_all
from leadsman.sources.delay.matrix import BadMatrix, parse_matrix
from leadsman.sources.recording.reader import BadRecording, RequestDecoder
from leadsman.sources.telemetry.telemetry_sources import TasPolicyObject, to_document
from leadsman.state import etcd_json, keys
from leadsman.state.etcd_store import to_change
from leadsman.state.records import AnyRecord, BadRecord, Reward, decode_record, encode_record
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import StoredItem, StoreError, Updated
from tests.fuzz.oracle import Harness, check_each


def _wire_args(body: bytes) -> None:
    pod = read_args(body).pod
    with suppress(BadBound):
        parse_bounds(pod)


def _bound(text: bytes) -> None:
    value = text.decode(errors="replace")
    parse_bounds(PodInfo("ns", "p", "u", {"delay_edge-1": "5"}, {DELAY_ANNOTATION: value}))


def _record(kind: type[Any], value: bytes) -> None:
    record = decode_record(kind, value)
    with suppress(BadRecord):  # it may be 4 KiB in a shorter form than ours
        assert decode_record(kind, encode_record(record)) == record


def _key(raw: bytes) -> None:
    key = etcd_json.to_stored_item(etcd_json.KeyValue(raw)).key
    parsed = keys.parse(key)
    assert parsed is None or str(parsed) == key
    keys.parse_ring_key(key)


def _etcd(data: bytes) -> None:
    """A watch's message applied to a snapshot, and its pages; a ring's members; an error's text."""
    changes = [to_change(each) for each in etcd_json.decode_stream_line(data, etcd_json.WatchResponse).events]
    snapshot = apply_changes(Snapshot(), changes, 1.0)
    view = make_view(DecisionInputs(snapshot, policy.Policy(), 2.0), 0.0)
    msgspec.json.encode(nodes.node_rows(view, (), (), {}))
    items = [StoredItem(each.key, each.value, 1, 0) for each in changes if isinstance(each, Updated)]
    peer_selection.decode_members(items)


def _etcd_responses() -> list[Harness]:
    kinds: list[type[Any]] = [
        etcd_json.RangeResponse, etcd_json.TxnResponse, etcd_json.LeaseResponse,
        etcd_json.StreamMessage,
    ]  # fmt: skip
    decoders = [Harness(partial(etcd_json.decode_response, kind=kind), (StoreError,)) for kind in kinds]
    return [*decoders, Harness(_etcd, (StoreError,)), Harness(lambda data: etcd_json.error_from_response(503, data))]


_DRIVER = "gpu.example.com"
_DEVICE = DeviceFields(
    "gpu",
    attributes={"model": DeviceAttribute(string="A"), "index": DeviceAttribute(integer=2**62)},
    capacity={"memory": CapacityFields("4Gi")},
)


def _taspolicy(body: bytes) -> None:
    parsed = parse_taspolicy(to_document(decode_json(body, TasPolicyObject)))
    msgspec.json.encode(parsed.problems)


def _goldpinger(body: bytes) -> None:
    for report in parse_check_all(body, {"10.0.0.1": "edge-1", "10.0.0.2": "edge-2"})[0].values():
        assert all(0 <= ms <= MAX_RTT_MS for ms in report.rtt_ms.values())


def _matrix(data: bytes) -> None:
    """The matrix, and after a NUL its metadata."""
    matrix, _, metadata = data.decode().partition("\0")
    parsed = parse_matrix(matrix, metadata)
    msgspec.json.encode({node: dict(parsed.row(node).forward) for node in parsed.nodes})


def _snapshot_file(data: bytes) -> None:
    """Reads and writes it, as `leadsman snapshot` does with a file that somebody else sent."""
    for _ in snapshot_chunks(read_snapshot(data)):
        pass


def _pod(body: bytes) -> None:
    """A pod's life on its node: met first, changed, gone; what is written of it."""
    pod = decode_json(body, Pod)
    ledger = IncidentLedger({}, CountedTotals(), False, lambda: 5.0, lambda: 1e9)
    ledger.on_pod_updated(pod)
    ledger.count_incidents(pod.metadata.uid)
    ledger.credit_health()
    run_seconds(pod)
    for shard in ledger.counted_totals.changed_shards:
        encode_record(ledger.counted_totals.shard_record(shard))
    for kind, reward in ledger.rewards.items():
        encode_record(reward)
        keys.reward_key("edge-1", kind)
    ledger.on_pod_deleted(pod)
    with suppress(quality_observer.InvalidAnnotation):
        quality_observer.parse_reward_metric(pod)


def _watch(lines: bytes) -> None:
    """Lines of a watch of pods."""
    batch: WatchBatch[Pod] = WatchBatch({}, [], Pod)
    resume = "1"
    for line in filter(bytes.strip, lines.split(b"\n")):
        resume = batch.apply_line(line, resume)


def _annotations(text: bytes) -> None:
    """Port, path and series, one a line."""
    port, path, series = [*text.decode(errors="replace").split("\n", 2), "", ""][:3]
    annotations = {PORT_ANNOTATION: port, PATH_ANNOTATION: path, SERIES_ANNOTATION: series}
    pod = Pod(
        ObjectMeta(name="p", annotations=BoundedAnnotations(annotations)),
        status=PodStatus(pod_ip="10.1.0.1", host_ip="10.0.0.1"),
    )
    quality_observer.parse_reward_metric(pod)


_SERIES = tuple(map(quality_observer.parse_expression, ('m{a="b"}', "queue_seconds", "seconds_sum / seconds_count")))


def _scraped_page(body: bytes) -> None:
    page = body.decode(errors="replace")
    for series in _SERIES:
        quality_observer.evaluate_page(series, page)


def _probe(data: bytes) -> None:
    for version in IpVersion:
        reply = decode_reply(version, data)
        assert reply is None or 0 <= reply.counter < 2**64
    decode_reply(IpVersion.V4, strip_ipv4_header(data))


def _move_plan(text: bytes) -> None:
    handed_over = MOVE_PLAN.decode(text)
    again = MOVE_PLAN.decode(MOVE_PLAN.encode(handed_over))
    assert again.plan.id == handed_over.plan.id


_NOT_TEXT = (UnicodeDecodeError,)
"""WatchedFiles takes it, as it takes every ValueError of a file's parser."""

HARNESSES: Mapping[str, Harness] = {
    "wire_args": Harness(_wire_args, (BadRequest,)),
    "wire_preemption": Harness(read_preemption, (BadRequest,)),
    "wire_binding": Harness(read_binding, (BadRequest,)),
    "delay_annotation": Harness(_bound, (BadBound,)),
    # A stranger chooses under which key it writes them.
    "records": check_each([Harness(partial(_record, kind), (BadRecord,)) for kind in (*AnyRecord.__args__, Reward)]),
    "record_keys": Harness(_key),
    "etcd": check_each(_etcd_responses()),
    "selector": Harness(
        lambda text: Selector(text.decode()).selects(_DRIVER, _DEVICE), (BadSelector, *_NOT_TEXT), max_bytes=2048
    ),
    "policy": Harness(
        lambda text: policy.digest(policy.parse(text.decode())), (policy.PolicyError, *_NOT_TEXT), max_bytes=4096
    ),
    "taspolicy": Harness(_taspolicy, (BadTasPolicy, MalformedResponse)),
    "quantity": Harness(
        lambda text: quantity.format_quantity(quantity.parse(text.decode(errors="replace"))), (quantity.BadQuantity,)
    ),
    "goldpinger": Harness(_goldpinger, (BadCheckAll,)),
    "matrix": Harness(_matrix, (BadMatrix, *_NOT_TEXT)),
    "snapshot_file": Harness(_snapshot_file, (BadSnapshot,)),
    # An unpacked block of a segment: `leadsman replay` reads what others recorded.
    "recording": Harness(lambda block: list(RequestDecoder().decode(block)), (BadRecording, *UNREADABLE)),
    "move_plan": Harness(_move_plan, (BadDocument,)),
    "kube_pod": Harness(_pod, (MalformedResponse,)),
    "kube_objects": check_each(
        [Harness(partial(decode_json, kind=kind), (MalformedResponse,)) for kind in (Node, Event, Lease)]
    ),
    "kube_errors": Harness(lambda body: str(error_from_response(403, body)).encode()),
    "kube_watch": Harness(_watch, (ApiError,)),
    "pod_annotations": Harness(_annotations, (quality_observer.InvalidAnnotation,)),
    "scraped_page": Harness(_scraped_page),
    "probe_packet": Harness(_probe),
}
