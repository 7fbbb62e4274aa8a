"""An API server with nodes that have devices, and what agents would report of their links."""

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any

import yaml

from leadsman.state import keys, metric_names
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Hardware, Heartbeat, Identity, encode_record
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd
from tests.testbed.kube_apiserver import KubeApiServer

MANIFESTS = Path(__file__).parents[3] / "daemonset"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
IN_LEADSMAN = f"{RBAC}/namespaces/leadsman"
PATHS = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{IN_LEADSMAN}/roles",
    "RoleBinding": f"{IN_LEADSMAN}/rolebindings",
}
PODS = "/api/v1/namespaces/default/pods"
VF = "openshift.io/sriov"
GB = 10**9

Object = dict[str, Any]


class DeviceCluster:
    """An API server with nodes that have devices, and what is asked of it."""

    def __init__(self, api: KubeApiServer) -> None:
        self.api = api

    def grant_rights(self) -> None:
        """What the components `devices` and `controller` and the base give the two, and no more."""
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        for file in ("components/devices/rbac.yaml", "components/controller/rbac.yaml", "base/serviceaccounts.yaml"):
            for one in yaml.safe_load_all((MANIFESTS / file).read_text()):
                if one["kind"] in PATHS:
                    self.api.call("POST", PATHS[one["kind"]], one)

    def node(self, name: str, devices: dict[str, int], **labels: str) -> None:
        metadata = {"name": name, "labels": {f"gpu.intel.com/{key}": value for key, value in labels.items()}}
        node = self.api.call("POST", "/api/v1/nodes", {"metadata": metadata})
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "200", **{key: str(each) for key, each in devices.items()}}
        node["status"] = {"allocatable": amounts, "capacity": amounts}
        self.api.call("PUT", f"/api/v1/nodes/{name}/status", node)

    def annotate(self, node: str, value: str) -> None:
        """kube-scheduler tries refused pods again when an annotation of a node changes."""
        self.api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"example.com/touched": value}}})

    def pod(self, name: str, devices: dict[str, int], bandwidth: str = "") -> None:
        annotations = {"leadsman.dev/bandwidth": bandwidth} if bandwidth else {}
        amounts = {key: str(each) for key, each in devices.items()}
        container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]}}
        self.api.call("POST", PODS, body)

    def pods(self) -> list[Object]:
        found: list[Object] = self.api.call("GET", PODS)["items"]
        return found

    def bound(self) -> list[str]:
        return [pod["spec"]["nodeName"] for pod in self.pods() if "nodeName" in pod["spec"]]

    def waiting(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods() if "nodeName" not in pod["spec"]]

    def all_tried(self) -> bool:
        """Whether each is bound, or was told that it fits nowhere."""
        return all("nodeName" in pod["spec"] or pod["status"].get("conditions") for pod in self.pods())

    def reasons(self) -> set[str]:
        waiting = [pod for pod in self.pods() if "nodeName" not in pod["spec"]]
        return {each["message"] for pod in waiting for each in pod["status"].get("conditions", ())}

    def clear(self) -> None:
        self.api.call("DELETE", PODS, {"gracePeriodSeconds": 0})


class Reports:
    """Writes what an agent of each node would, until the block ends. by_node: the hardware values of each, which may be
    altered."""

    def __init__(self, etcd: Etcd, by_node: dict[str, dict[str, float]]) -> None:
        self._url, self._by_node, self._stop = etcd.client_url, by_node, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Reports":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        store = EtcdStore(EtcdAccess((self._url,)))
        for seq in itertools.count(1):
            for node, values in self._by_node.items():
                records = (Identity("uid", 1, "127.0.0.1"), Hardware(values), Heartbeat(1, seq, 5.0))
                await store.write([Put(keys.record_key(node, type(each)), encode_record(each)) for each in records])
            if await asyncio.to_thread(self._stop.wait, 1.0):
                break
        await store.close()


def link(gbit: float) -> dict[str, float]:
    """A physical function whose virtual functions have no rate; of two, the agent reports the worse one."""
    return {
        metric_names.SRIOV_LINK_HEADROOM: gbit * GB,
        metric_names.SRIOV_LIMITED: 0.0,
        metric_names.SRIOV_LIMITED_FUNCTIONS: 0.0,
    }
