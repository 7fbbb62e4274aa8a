"""The wire's JSON → Structs, on bodies as API servers write them."""

import json
from pathlib import Path

import pytest

from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.kube.objects import Event, Owner, OwnerReference, PartialObjectMetadata, Pod, pod_owner

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


def of(kind, body):
    return decode_json(json.dumps(body).encode(), kind)


CRASHED = {
    "metadata": {
        "name": "web-0",
        "namespace": "default",
        "uid": "u",
        "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Tag", "name": "t", "uid": "1"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "2", "controller": True},
        ],
        "creationTimestamp": "2026-11-21T01:00:55Z",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}], "tolerations": []},
    "status": {
        "phase": "Running",
        "podIP": "10.1.0.4",
        "hostIP": "10.0.0.2",
        "startTime": "2026-11-21T01:00:56Z",
        "conditions": [{"type": "Ready", "status": "False", "lastProbeTime": None}],
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 3,
                "ready": False,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {
                    "terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-21T01:02:00Z"}
                },
            }
        ],
    },
}


def test_a_pod_that_crashes() -> None:
    pod = of(Pod, CRASHED)
    main = pod.status.container_statuses[0]
    assert (main.restart_count, main.state.waiting.reason) == (3, "CrashLoopBackOff")
    assert (main.last_state.terminated.exit_code, main.last_state.terminated.reason) == (137, "OOMKilled")
    assert (pod.status.pod_ip, pod.status.host_ip, pod.spec.node_name) == ("10.1.0.4", "10.0.0.2", "n1")
    assert pod.metadata.controller.name == "web-5d"
    assert (pod.finished, pod.terminating) == (False, False)


@pytest.mark.parametrize("name", sorted(path.name for path in CAPTURES.glob("preempt-*.json")))
def test_pods_as_a_real_api_server_made_them(name) -> None:
    body = json.loads((CAPTURES / name).read_text())["Pod"]
    pod = of(Pod, body)
    assert (pod.metadata.uid, pod.metadata.labels) == (body["metadata"]["uid"], body["metadata"].get("labels", {}))


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


def node(name: str) -> OwnerReference:
    return OwnerReference("Node", name, controller=True)


@pytest.mark.parametrize(
    ("name", "references", "owner"),
    [
        ("db-0", [SET], Owner("StatefulSet", "db")),
        ("db-0", [TAG, SET], Owner("StatefulSet", "db")),
        ("alone", [], Owner("Pod", "alone")),
        ("alone", [TAG], Owner("Pod", "alone")),
    ],
)
def test_a_pod_belongs_to_its_controller_or_to_itself(
    name: str, references: list[OwnerReference], owner: Owner
) -> None:
    assert pod_owner(name, references) == owner


def test_a_static_pod_belongs_to_no_node_and_is_named_the_same_on_all() -> None:
    assert pod_owner("kube-proxy-edge-1", [node("edge-1")]) == Owner("Pod", "kube-proxy")
    assert pod_owner("kube-proxy-edge-2", [node("edge-2")]) == Owner("Pod", "kube-proxy")


def test_a_pod_that_its_node_controls_under_another_name_keeps_its_own() -> None:
    assert pod_owner("proxy", [node("edge-1")]) == Owner("Pod", "proxy")
