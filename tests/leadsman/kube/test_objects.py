"""The wire's JSON → Structs, on bodies as API servers write them."""

import json
import math
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.kube import bounded_metadata, object_changes
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.kube.object_changes import ChangeType, WatchBatch, object_key
from leadsman.kube.objects import (
    LONGEST_NAME,
    Event,
    ObjectMeta,
    OwnerReference,
    PartialObjectMetadata,
    Pod,
    pod_owner,
    workload_name,
)
from leadsman.kube.quantity import NANO, BadQuantity, format_quantity, from_float, parse


def of(kind, body):
    return decode_json(json.dumps(body).encode(), kind)


@pytest.mark.parametrize("nothing", [{}, {"labels": None, "ownerReferences": None, "annotations": None}])
def test_null_counts_as_absent(nothing) -> None:
    pod = of(Pod, {"metadata": {"name": "x"} | nothing, "spec": {"nodeName": None}, "status": None})
    assert (pod.metadata.labels, pod.metadata.owner_references, pod.spec.node_name) == ({}, (), "")
    assert pod.metadata.controller is None
    assert pod.status.phase == ""


OLD_STYLE = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "web-0", "uid": "u", "fieldPath": "spec.containers{main}"},
    "reason": "BackOff",
    "count": 4,
    "firstTimestamp": "2026-11-21T01:00:00Z",
    "lastTimestamp": "2026-11-21T01:04:00Z",
    "eventTime": None,
    "source": {"component": "kubelet", "host": "n1"},
}
NEW_STYLE = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "web-0", "uid": "u"},
    "reason": "FailedScheduling",
    "eventTime": "2026-11-21T01:00:00.123456Z",
    "firstTimestamp": None,
    "lastTimestamp": None,
    "series": {"count": 6, "lastObservedTime": "2026-11-21T01:05:00.000000Z"},
    "source": {},
}


@pytest.mark.parametrize(("body", "times", "minute"), [(OLD_STYLE, 4, 4), (NEW_STYLE, 6, 5)])
def test_an_event_counts_and_dates_itself_in_two_ways(body, times: int, minute: int) -> None:
    event = of(Event, body)
    assert (event.occurrences, event.last_seen.minute) == (times, minute)
    assert event.involved_object.uid == "u"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"metadata": []}'])
def test_what_is_no_object_is_garbled(body) -> None:
    with pytest.raises(MalformedResponse):
        decode_json(body, PartialObjectMetadata)


TAG, HASH = OwnerReference("Tag", "t"), {"pod-template-hash": "5d8f"}


def controller(kind: str, name: str) -> OwnerReference:
    return OwnerReference(kind, name, controller=True)


@pytest.mark.parametrize(
    ("name", "references", "labels", "whose"),
    [
        ("web-5d8f-x", [controller("ReplicaSet", "web-5d8f")], HASH, "deployment/web"),
        ("web-5d8f-x", [controller("ReplicaSet", "web-5d8f")], {}, "replicaset/web-5d8f"),
        ("web-x", [controller("ReplicaSet", "web")], HASH, "replicaset/web"),
        ("db-0", [TAG, controller("StatefulSet", "db")], HASH, "statefulset/db"),
        ("once-x", [controller("Job", "once")], {}, "job/once"),
        ("alone", [], HASH, "pod/alone"),
        ("alone", [TAG], {}, "pod/alone"),
        ("kube-proxy-edge-1", [controller("Node", "edge-1")], {}, "pod/kube-proxy"),
        ("proxy", [controller("Node", "edge-1")], {}, "pod/proxy"),
    ],
)
def test_a_pod_belongs_to_its_controller_or_to_itself_and_a_static_one_to_no_node(
    name: str, references: list[OwnerReference], labels: dict[str, str], whose: str
) -> None:
    owner = pod_owner(name, references)
    assert workload_name(owner.kind, owner.name, labels) == whose


# What is kept of an object's labels and annotations, whatever it carries.

MANY = {f"l{number:05}": "x" * 20 for number in range(5_000)}
KEYS = st.one_of(st.sampled_from(["app", "telemetry-policy", "delay_a"]), st.text(max_size=300))


def decoded(**metadata: Any) -> Pod:
    return decode_json(json.dumps({"metadata": {"name": "p"} | metadata}).encode(), Pod)


@pytest.mark.parametrize("wrong", [[1], {"a": 1}, "x"])
def test_labels_that_are_no_texts_make_the_object_undecodable(wrong: Any) -> None:
    with pytest.raises(MalformedResponse, match=r"\$\.metadata\.labels"):
        decoded(labels=wrong)


@pytest.mark.parametrize(("length", "kept"), [(LONGEST_NAME, 1), (LONGEST_NAME + 1, 0)])
def test_of_15_000_owners_only_a_controller_with_a_name_that_an_object_can_have_is_kept(length: int, kept: int) -> None:
    owners = [{"kind": "Other", "name": f"o{number}", "uid": "u"} for number in range(15_000)]
    controller = {"kind": "Job", "name": "j" * length, "uid": "u", "controller": True}
    meta = decoded(ownerReferences=[*owners, controller]).metadata
    assert [owner.name for owner in meta.owner_references] == ["j" * length] * kept


@given(pairs=st.dictionaries(KEYS, st.text(max_size=20_000)))
@example(pairs=MANY | {"app": "shop", "delay_n1": "25", "leadsman.dev/delay": "n1: 5"})
@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        (bounded_metadata.BoundedLabels, bounded_metadata.MAX_LABEL_BYTES),
        (bounded_metadata.BoundedAnnotations, bounded_metadata.MAX_ANNOTATION_BYTES),
    ],
)
def test_what_is_kept_is_bounded_and_what_is_read_is_kept_or_named(
    kind: type[bounded_metadata.BoundedPairs], limit: int, pairs: dict[str, str]
) -> None:
    kept = kind.of(pairs)
    assert sum(len(key.encode()) + len(value.encode()) for key, value in kept.items()) <= limit
    assert kept.items() <= pairs.items()
    assert kept.cut == len(pairs) - len(kept)
    assert bool(kept.excess) == any(kind.is_read(key) for key in pairs.keys() - kept.keys())


# Listings and events applied to a view, by hand and by chance.


def thing(name, version="1", uid="u"):
    return PartialObjectMetadata(ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=version))


things = st.builds(thing, st.sampled_from("abc"), st.sampled_from("123"), st.sampled_from("uv"))
views = st.dictionaries(st.sampled_from("abc"), st.tuples(st.sampled_from("123"), st.sampled_from("uv"))).map(
    lambda some: [thing(name, version, uid) for name, (version, uid) in some.items()]
)


@given(views, views)
def test_the_changes_lead_from_one_listing_to_the_next(first, second) -> None:
    view, _ = object_changes.view_from_list({}, first)
    wanted, told = object_changes.view_from_list(view, second)
    assert replayed(view, told) == wanted


@given(views, st.lists(st.tuples(st.booleans(), things), max_size=8))
def test_the_changes_of_events_lead_to_the_view_that_events_do(
    first: list[PartialObjectMetadata], events: list[tuple[bool, PartialObjectMetadata]]
) -> None:
    view, _ = object_changes.view_from_list({}, first)
    batch = WatchBatch(dict(view), [], PartialObjectMetadata)
    for gone, event in events:
        line = {"type": "DELETED" if gone else "MODIFIED", "object": event}
        batch.apply_line(msgspec.json.encode(line), "")
        key = object_key(event.metadata)
        assert (key in batch.view) is not gone
    assert replayed(view, batch.changes) == batch.view


def replayed(view, told):
    """By the rules that a listener has: deleted is gone, anything else is there."""
    view = dict(view)
    for change in told:
        key = object_key(change.object.metadata)
        assert (key in view) == (change.kind is not ChangeType.ADDED)
        if change.kind is ChangeType.DELETED:
            del view[key]
        else:
            view[key] = change.object
    return view


# Kubernetes quantities, exact in every written form.


@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ("0", 0),
        ("1.5", 1_500_000_000),
        (".5", 500_000_000),
        ("1500m", 1_500_000_000),
        ("5n", 5),
        ("1Ki", 1024 * NANO),
        ("1.5Mi", 3 * 2**19 * NANO),
        ("12e6", 12 * 10**6 * NANO),
        ("12e-3", 12_000_000),
        ("18446744073709551616", 2**64 * NANO),
        ("0.9n", 1),
        ("-0.1n", -1),
        ("1.0000000001", NANO + 1),
        ("8Ei", (2**63 - 1) * NANO),
        ("-9Ei", -(2**63 - 1) * NANO),
    ],
)
def test_every_form_has_its_exact_value_rounded_away_from_zero_and_capped_as_kubernetes_does(
    written: str, nanos: int
) -> None:
    assert parse(written) == nanos


@pytest.mark.parametrize(
    "written", ["", " 1", "one", "1.2.3", "1ki", "1i", "--1", ".", "m", "1e", "1e999999999", "NaN", "\u0661", "9" * 65]
)
def test_anything_else_is_refused_with_what_is_allowed(written: str) -> None:
    with pytest.raises(BadQuantity, match="is not a quantity; write one as Kubernetes does"):
        parse(written)


@given(st.integers(-(10**30), 10**30))
def test_text_is_read_back_as_the_same_quantity(nanos: int) -> None:
    assert parse(format_quantity(nanos)) == nanos


@given(st.floats(-1e15, 1e15))
def test_a_measured_number_is_its_shortest_decimal_form(value: float) -> None:
    found = from_float(value)
    assert found is not None
    assert abs(Decimal(found) / NANO - Decimal(repr(value))) <= Decimal(1) / NANO
    assert from_float(math.copysign(math.inf, value)) is None
