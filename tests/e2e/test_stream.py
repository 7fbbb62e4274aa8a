"""The stream of bounded pods: what keeps them from starting, and what is counted of them."""

import contextlib
from pathlib import Path
from typing import Any

from tests.e2e.stream import PODS, Stream, bounded_pod
from tests.testbed.kube_apiserver import KubeApiServer

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def test_a_bounded_pod_mounts_the_volume_that_keeps_kubelets_from_starting_it() -> None:
    spec: Any = bounded_pod("one", "edge-1")["spec"]
    mounts = spec["containers"][0]["volumeMounts"]
    assert [mount["name"] for mount in mounts] == [volume["name"] for volume in spec["volumes"]]


def test_a_pod_elsewhere_stays_until_its_event_is_there(kubernetes_binaries: Path, tmp_path: Path) -> None:
    """Here no kube-scheduler runs, so that the test says where pods are bound."""
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes") as api:
        stream = Stream(api, "edge-1", rate=0.1)
        stream.during(lambda: bind_and_report(api, "edge-2"))
        seen = stream.streamed
        assert (seen.sent, seen.misplaced, seen.reported, seen.lost) == (1, 1, 1, 0)
        assert api.call("GET", PODS)["items"] == []


def bind_and_report(api: KubeApiServer, node: str) -> None:
    pods: list[Any] = []
    while not pods:
        with contextlib.suppress(OSError):
            pods = api.call("GET", PODS)["items"]
    pod = pods[0]["metadata"]
    api.call("POST", f"{PODS}/{pod['name']}/binding", {"metadata": {"name": pod["name"]}, "target": {"name": node}})
    regarding = {"kind": "Pod", "namespace": "default", "name": pod["name"], "uid": pod["uid"]}
    event = {
        "metadata": {"name": "unchecked"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "leadsman.dev/controller",
        "reportingInstance": "one",
        "action": "Check",
        "reason": "BoundUnchecked",
        "type": "Warning",
        "regarding": regarding,
    }
    api.call("POST", EVENTS, event)
