"""The cluster of `api_server_cluster` with a real kube-scheduler and kube-controller-manager.

kube-scheduler asks a real extender, and the ReplicaSet controller makes the replacements. What is not real are the
kubelets: a process in each node's namespace renews its Lease, and a thread says that bound pods run, and ends pods that
are deleted.
"""

import base64
import contextlib
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from leadsman.published.self_healing import BACKUPS, SELF_HEALING
from leadsman.testbed.etcd import free_ports
from tests.failover.api_server_cluster import ApiServerCluster
from tests.testbed.kube_component import KubeControllerManager
from tests.testbed.kube_scheduler import KubeScheduler
from tests.testbed.paper_cluster import EXTENDER, VERBS

REFERENCE, BOUND_MS = "a-0", 30
"""Pods are bounded to this node: zones a and b are within the bound, c is not."""

RTT_MS = {frozenset("a"): 2.0, frozenset("b"): 2.0, frozenset("c"): 2.0, frozenset("ab"): 8.0}
FAR_RTT_MS = 80.0

FILLERS = "fillers"


class Pod(NamedTuple):
    """A pod of a Deployment. node: "" while it is not bound."""

    name: str
    uid: str
    node: str
    terminating: bool


class KubernetesCluster(ApiServerCluster):
    """binaries: the folder of kube-apiserver, etcd, kube-scheduler and kube-controller-manager."""

    def rtt_ms(self, one: str, other: str) -> float:
        return RTT_MS.get(frozenset((one[0], other[0])), FAR_RTT_MS)

    def deploy(self, name: str, replicas: int, size: str = "1Gi") -> None:
        """A Deployment whose pods are bounded to REFERENCE."""
        labels = {"app": name}
        resources = {"requests": {"cpu": "100m", "memory": size}}
        template = {
            "metadata": {"labels": {**labels, f"delay_{REFERENCE}": str(BOUND_MS)}},
            "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
        self.kubernetes.call("POST", "/apis/apps/v1/namespaces/default/deployments", body)

    def fill(self, size: str) -> None:
        """Takes all room that is left, with pods of this size and without a bound, in a namespace of their own."""
        resources = {"requests": {"memory": size}}
        filler = {"spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]}}
        path = f"/api/v1/namespaces/{FILLERS}/pods"
        self.kubernetes.call("POST", "/api/v1/namespaces", {"metadata": {"name": FILLERS}})
        refused = ""
        while not refused:
            made = self.kubernetes.call("POST", path, {"metadata": {"generateName": "filler-"}, **filler})
            name = made["metadata"]["name"]
            self.wait_until(partial(self._decided, f"{path}/{name}"), "a filler bound or refused", 30.0)
            refused = "" if self.kubernetes.call("GET", f"{path}/{name}")["spec"].get("nodeName") else name
        self.kubernetes.call("DELETE", f"{path}/{refused}")

    def pods(self) -> list[Pod]:
        """In namespace default."""
        listed = self.kubernetes.call("GET", "/api/v1/namespaces/default/pods")["items"]
        found = [(each["metadata"], each["spec"].get("nodeName", "")) for each in listed]
        return [Pod(meta["name"], meta["uid"], node, "deletionTimestamp" in meta) for meta, node in found]

    def taints(self, node: str) -> set[str]:
        """Their keys."""
        spec = self.kubernetes.call("GET", f"/api/v1/nodes/{node}")["spec"]
        return {taint["key"] for taint in spec.get("taints", ())}

    def events(self, reason: str) -> list[dict[str, Any]]:
        listed = self.kubernetes.call("GET", "/apis/events.k8s.io/v1/events")["items"]
        return [event for event in listed if event.get("reason") == reason]

    def self_healing(self) -> dict[str, Any]:
        """The section of /plan; {} when the controller does not answer."""
        return dict(self._get("/plan").get("self_healing", {}))

    def published(self) -> dict[str, Any]:
        """The state that extenders and the next leader read; {} before the first."""
        found = self._config_map(SELF_HEALING.config_map)
        return dict(json.loads(found["data"][SELF_HEALING.key])) if found else {}

    def remembered(self) -> set[str]:
        """UIDs of the pods whose backups the next leader can read."""
        found = self._config_map(BACKUPS.config_map)
        return set(BACKUPS.decode(base64.b64decode(found["binaryData"][BACKUPS.key])).pods) if found else set()

    def _config_map(self, name: str) -> dict[str, Any]:
        """{} where it is not there."""
        with contextlib.suppress(HTTPError):
            return dict(self.kubernetes.call("GET", f"/api/v1/namespaces/leadsman/configmaps/{name}"))
        return {}

    def coverage(self) -> dict[str, dict[str, Any]]:
        """Pod → node, coverage, backup and reason, as /plan shows them."""
        shown = self.self_healing().get("pods", {})
        return {name.rpartition("/")[2]: each for name, each in shown.items()}

    def explained(self, pod: Pod) -> dict[str, Any]:
        """What the extender's API has of the pod's decision."""
        with urlopen(f"{self.extender_api_url}/api/v1/pods/default/{pod.name}", timeout=5) as answer:
            return dict(json.load(answer))

    def is_covered(self) -> bool:
        """Whether every pod is bound, and has a backup whose room placeholders hold."""
        coverage = self.coverage()
        living = [pod for pod in self.pods() if not pod.terminating]
        return bool(living) and all(
            pod.node and coverage.get(pod.name, {}).get("coverage") == "covered" for pod in living
        )

    def leader(self) -> str:
        """The URL of the controller that leads; "" when none says so."""
        for url, process in self.controllers.items():
            with contextlib.suppress(URLError, OSError):
                if process.poll() is None and self._metric("leadsman_controller_leader ", url):
                    return url
        return ""

    def ask_leader(self) -> bool:
        """Asks the leader from now on, when there is one."""
        self.url = self.leader() or self.url
        return bool(self.leader())

    def replaced(self, before: list[Pod]) -> list[Pod]:
        """The bound pods that were not there before."""
        known = {pod.uid for pod in before}
        return [pod for pod in self.pods() if pod.uid not in known and pod.node]

    def _decided(self, path: str) -> bool:
        """Whether kube-scheduler bound the pod, or said that it cannot."""
        conditions = self.kubernetes.call("GET", path)["status"].get("conditions", ())
        return any(each["type"] == "PodScheduled" for each in conditions)

    def _start_kubernetes(self, stack: contextlib.ExitStack) -> None:
        super()._start_kubernetes(stack)
        ended = threading.Event()
        running_pods = threading.Thread(target=self._run_pods, args=(ended.is_set,), name="pods", daemon=True)
        running_pods.start()
        stack.callback(running_pods.join)
        stack.callback(ended.set)
        extender, ops, people = free_ports(3)
        self.extender_api_url = f"http://127.0.0.1:{people}"
        flags = ["--plain-http", "--drain-seconds=0", "--self-healing", "--listen", f"127.0.0.1:{extender}"]
        flags += ["--ops-listen", f"127.0.0.1:{ops}", f"--api-listen=127.0.0.1:{people}"]
        flags += ["--kubeconfig", str(self.kubernetes.kubeconfig(EXTENDER))]
        self.extender = self.start_process("extender", flags)
        asked = {"urlPrefix": f"http://127.0.0.1:{extender}", "preemptVerb": "preempt", "nodeCacheCapable": True}
        asked |= {**VERBS, "ignorable": True, "httpTimeout": "2s"}
        stack.enter_context(KubeControllerManager(self._binaries, self._folder / "manager", self.kubernetes))
        stack.enter_context(
            KubeScheduler(self._binaries, self._folder / "scheduler", self.kubernetes, extenders=[asked])
        )

    def _run_pods(self, ended: Callable[[], bool]) -> None:
        """The other half of the kubelets, on a thread."""
        while not ended():
            with contextlib.suppress(URLError, OSError):
                for pod in self.kubernetes.call("GET", "/api/v1/pods")["items"]:
                    node = pod["spec"].get("nodeName")
                    if node in self.living_kubelets:
                        self._run_pod(pod)
            time.sleep(0.2)

    def _run_pod(self, pod: dict[str, Any]) -> None:
        """One look of its kubelet: it is ended when it is deleted, and else runs with what it requests now."""
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            self.kubernetes.call("DELETE", path, options)
            return
        status = _running_status(pod)
        if any(pod["status"].get(name) != value for name, value in status.items()):
            ready = {"type": "Ready", "status": "True"}
            others = [each for each in pod["status"].get("conditions", []) if each["type"] != "Ready"]
            self.kubernetes.call("PATCH", f"{path}/status", {"status": {**status, "conditions": [*others, ready]}})


def _running_status(pod: dict[str, Any]) -> dict[str, Any]:
    """What the kubelet says of a pod that runs, its conditions apart."""
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}},
            "lastState": {},
            "allocatedResources": container["resources"].get("requests", {}),
            "resources": container["resources"],
        }
        for container in pod["spec"]["containers"]
    ]
    return {"phase": "Running", "containerStatuses": containers}
