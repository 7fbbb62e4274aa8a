"""A real kube-scheduler whose extender does not answer binds against a bound, and the controller finds the pod.

Where KUBEBUILDER_ASSETS names kube-apiserver and kube-scheduler. There is no kubelet: pods are bound and never run.
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadsman.testbed.etcd import free_ports
from tests.controller.real_cluster import ACCOUNT, SHOP, owned_pod, real_cluster, scheduled, until
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

NODES = ("edge-1", "edge-2", "far")
DELAYS_MS = "0 10 80\n10 0 80\n80 80 0\n"


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """Three nodes, and a kube-scheduler that asks an extender at an address where nobody listens."""
    absent = {
        "urlPrefix": f"http://127.0.0.1:{free_ports(1)[0]}",
        "filterVerb": "filter",
        "ignorable": True,
        "nodeCacheCapable": True,
    }
    with (
        real_cluster(kubernetes_binaries, tmp_path, "controller/rbac", nodes=NODES) as one,
        scheduled(kubernetes_binaries, tmp_path, one, extenders=[absent]),
    ):
        yield one


@pytest.fixture
def controller(cluster: KubeApiServer, tmp_path: Path) -> Iterator[int]:
    """With the rights of its component, and delays from a file. Yields its port."""
    (tmp_path / "delays.txt").write_text(DELAYS_MS)
    (tmp_path / "rows.json").write_text(json.dumps({name: row for row, name in enumerate(NODES)}))
    (port,) = free_ports(1)
    delays = ["--delay-matrix", str(tmp_path / "delays.txt"), "--delay-metadata", str(tmp_path / "rows.json")]
    flags = ["--kubeconfig", str(cluster.kubeconfig(ACCOUNT)), "--listen", f"127.0.0.1:{port}", *delays]
    command = [sys.executable, "-m", "leadsman.cli.main", "controller", *flags, "--etcd", "http://127.0.0.1:1"]
    with (tmp_path / "controller.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    yield port
    process.kill()
    process.wait()
    text = (tmp_path / "controller.log").read_text()
    assert "Traceback" not in text, text
    assert "Forbidden" not in text, text


def bounded_pod(name: str, node: str) -> Any:
    """Bound to edge-1 within 25 ms; kube-scheduler knows only of `node`."""
    return owned_pod(name, labels={"delay_edge-1": "25"}, nodeSelector={"node": node})


def results(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    prefix = 'leadsman_controller_bound_pods_total{result="'
    return {
        line.removeprefix(prefix).partition('"')[0]: float(line.split()[-1])
        for line in lines
        if line.startswith(prefix)
    }


def test_a_pod_that_was_bound_while_no_extender_answered_gets_an_event_and_one_within_its_bound_does_not(
    cluster: KubeApiServer, controller: int
) -> None:
    for name, node in (("wrong", "far"), ("right", "edge-2")):
        cluster.call("POST", SHOP, bounded_pod(name, node))
    until(lambda: cluster.call("GET", f"{SHOP}/wrong")["spec"].get("nodeName") == "far", "bound without an extender")
    found = until(lambda: unchecked(cluster), "an Event of the unchecked pod", 60)
    assert [event["regarding"]["name"] for event in found] == ["wrong"]
    assert "80 ms from edge-1" in found[0]["note"]
    assert results(controller) == {"kept": 1.0, "unchecked": 1.0, "unknown": 0.0}


def unchecked(cluster: KubeApiServer) -> list[dict[str, Any]]:
    events = cluster.call("GET", "/apis/events.k8s.io/v1/namespaces/shop/events")["items"]
    return [event for event in events if event["reason"] == "BoundUnchecked"]
