"""A real API server with nodes and pods that nobody runs, and what tests ask of it.

A test is the kubelets; `schedule` starts a real kube-scheduler beside it.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

MANIFESTS = Path(__file__).parents[2] / "daemonset"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "ClusterRole": f"{RIGHTS}/clusterroles",
    "ClusterRoleBinding": f"{RIGHTS}/clusterrolebindings",
    "Role": f"{RIGHTS}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RIGHTS}/namespaces/{{namespace}}/rolebindings",
}
"""Of the kinds that `install` creates; Leadsman's processes are started by hand."""

EXTENDER, CONTROLLER = (f"system:serviceaccount:leadsman:leadsman-{part}" for part in ("extender", "controller"))
VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "httpTimeout": "10s"}
DEFAULT_PODS = "/api/v1/namespaces/default/pods"

Object = dict[str, Any]


def install(api: KubeApiServer, *files: str) -> None:
    """Gives the rights, namespaces and priorities that these files below daemonset/ have, and no more."""
    for file in files:
        for one in yaml.safe_load_all((MANIFESTS / file).read_text()):
            if one["kind"] in COLLECTIONS:
                api.call("POST", COLLECTIONS[one["kind"]].format(namespace=one["metadata"].get("namespace")), one)


def add_node(api: KubeApiServer, name: str, amounts: Mapping[str, str], **labels: str) -> None:
    """A ready node, as its kubelet would tell of it."""
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})


class PaperCluster:
    """From entry to exit. accounts: beside the admin, each with a token and no right yet."""

    def __init__(self, binaries: Path, folder: Path, *accounts: str) -> None:
        self._binaries, self._folder, self._stack = binaries, folder, contextlib.ExitStack()
        self.api = KubeApiServer(binaries, folder / "kubernetes", users=dict.fromkeys(accounts, ()))

    def __enter__(self) -> Self:
        self._stack.enter_context(self.api)
        self._stack.callback(self.api.kill)  # a stop would wait for the watches of those that still follow it
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def schedule(self, *urls: str, preempts: bool = False, **options: Any) -> None:
        """Starts kube-scheduler, which asks the extenders at these URLs; the test is skipped where there is none."""
        asked = [{"urlPrefix": url, "nodeCacheCapable": True, **VERBS, **options} for url in urls]
        try:
            one = KubeScheduler(
                self._binaries, self._folder / "scheduler", self.api, extenders=asked, preempts=preempts
            )
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))
        self._stack.enter_context(one)

    def pod(self, name: str, container: Mapping[str, Any], metadata: Mapping[str, Any], **spec: Any) -> None:
        """With one container, of which only its resources are given."""
        containers = [{"name": "main", "image": "x", "resources": container}]
        body = {"metadata": {"name": name, **metadata}, "spec": {"containers": containers, **spec}}
        self.api.call("POST", DEFAULT_PODS, body)

    def pods(self, prefix: str = "") -> list[Object]:
        """Those of namespace default whose names begin so."""
        found: list[Object] = self.api.call("GET", DEFAULT_PODS)["items"]
        return [pod for pod in found if pod["metadata"]["name"].startswith(prefix)]

    def bound(self, prefix: str = "") -> list[str]:
        """Their nodes, of those that have one."""
        return [pod["spec"]["nodeName"] for pod in self.pods(prefix) if "nodeName" in pod["spec"]]

    def waiting(self, prefix: str = "") -> list[Object]:
        return [pod for pod in self.pods(prefix) if "nodeName" not in pod["spec"]]

    def untried(self, prefix: str = "") -> Sequence[Object]:
        """Those that are neither bound nor told that they fit nowhere."""
        return [pod for pod in self.waiting(prefix) if not pod["status"].get("conditions")]
