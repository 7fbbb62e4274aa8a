"""An API server with nodes that have devices, and what agents would report of their links."""

import asyncio
import itertools
import threading

from leadsman.state import keys, metric_names
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Hardware, Heartbeat, Identity, encode_record
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd
from tests.testbed.paper_cluster import COLLECTIONS, DEFAULT_PODS, PaperCluster, add_node, install

VF = "openshift.io/sriov"
GB = 10**9


class DeviceCluster(PaperCluster):
    """Nodes that have devices."""

    def grant_rights(self) -> None:
        """What the components `devices` and `controller` and the base give the two, and no more."""
        self.api.call("POST", COLLECTIONS["Namespace"], {"metadata": {"name": "leadsman"}})
        rights = ("components/devices/rbac.yaml", "components/controller/rbac.yaml", "base/serviceaccounts.yaml")
        install(self.api, *rights)

    def node(self, name: str, devices: dict[str, int], **labels: str) -> None:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "200", **{key: str(each) for key, each in devices.items()}}
        add_node(self.api, name, amounts, **{f"gpu.intel.com/{key}": value for key, value in labels.items()})

    def annotate(self, node: str, value: str) -> None:
        """kube-scheduler tries refused pods again when an annotation of a node changes."""
        self.api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"example.com/touched": value}}})

    def asking_pod(self, name: str, devices: dict[str, int], bandwidth: str = "") -> None:
        amounts = {key: str(each) for key, each in devices.items()}
        annotations = {"leadsman.dev/bandwidth": bandwidth} if bandwidth else {}
        self.pod(name, {"requests": amounts, "limits": amounts}, {"annotations": annotations})

    def reasons(self) -> set[str]:
        return {each["message"] for pod in self.waiting() for each in pod["status"].get("conditions", ())}

    def clear(self) -> None:
        self.api.call("DELETE", DEFAULT_PODS, {"gracePeriodSeconds": 0})


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
