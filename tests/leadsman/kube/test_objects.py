"""The wire's JSON → Structs, on bodies as API servers write them."""

import json

import pytest

from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.kube.objects import Event, Owner, OwnerReference, PartialObjectMetadata, Pod, pod_owner


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


TAG = OwnerReference("Tag", "t")
SET = OwnerReference("StatefulSet", "db", controller=True)
NODE = OwnerReference("Node", "edge-1", controller=True)


@pytest.mark.parametrize(
    ("name", "references", "owner"),
    [
        ("db-0", [TAG, SET], Owner("StatefulSet", "db")),
        ("alone", [], Owner("Pod", "alone")),
        ("alone", [TAG], Owner("Pod", "alone")),
        ("kube-proxy-edge-1", [NODE], Owner("Pod", "kube-proxy")),
        ("proxy", [NODE], Owner("Pod", "proxy")),
    ],
)
def test_a_pod_belongs_to_its_controller_or_to_itself_and_a_static_one_to_no_node(
    name: str, references: list[OwnerReference], owner: Owner
) -> None:
    assert pod_owner(name, references) == owner
