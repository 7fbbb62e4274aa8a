"""Devices on the cluster: cards and virtual functions that a device plugin has registered with a real kubelet."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from leadsman.cluster.devices.cards import NVIDIA_MEMORY
from leadsman.cluster.devices.demand import NVIDIA_CARD
from leadsman.kube.names import DEVICE_MEMORY_ANNOTATION
from tests.e2e.chart import change_values
from tests.e2e.cluster import Cluster
from tests.e2e.device_plugin import DevicePlugin
from tests.e2e.disturbances import node_of
from tests.e2e.images import SANDBOX
from tests.e2e.node import Node
from tests.e2e.rollout import Rollout
from tests.e2e.state_watch import EXTENDERS

FUNCTION = "openshift.io/sriov_net"
VALUES = ("extender.devices=true", f"extender.policy.devices.virtual_functions={{{FUNCTION}}}")
REPLICAS = 2
PODS = "/api/v1/namespaces/default/pods"
REFUSED = "no single device has"
SHARED, CARDS, MIB = 4, 2, 8192
FUNCTIONS, PODS_FOR_FUNCTIONS = 8, 10


def devices_are_given(cluster: Cluster, rollout: Rollout) -> str:
    """Three pods of 5 GiB on two cards of 8 GiB that the plugin shares by four, and ten pods on eight functions."""
    change_values(cluster, rollout, *VALUES)
    # An old replica answers on its open connections until it has ended, and knows no devices.
    cluster.until(lambda: len(cluster.api.call("GET", EXTENDERS)["items"]) == REPLICAS, "the old extenders are gone")
    node = node_of(cluster, "agent")
    try:
        return f"{_cards(cluster, node)}; {_functions(cluster, node)}"
    finally:
        cluster.kubectl("label", "node", node.name, f"{NVIDIA_CARD}.count-", f"{NVIDIA_MEMORY}-")


def _cards(cluster: Cluster, node: Node) -> str:
    labels = (f"{NVIDIA_CARD}.count={CARDS}", f"{NVIDIA_MEMORY}={MIB}")
    cluster.kubectl("label", "node", node.name, "--overwrite", *labels)
    with _plugin(cluster, node, NVIDIA_CARD, SHARED) as plugin, _pods(cluster, "card", 3, NVIDIA_CARD, "5Gi") as names:
        cluster.until(
            lambda: len(_on(cluster, names)) == CARDS and len(plugin.allocated) == CARDS, "two pods have a card"
        )
        cluster.until(lambda: REFUSED in _why(cluster, names), f"the third is told: {REFUSED}")
        return f"{len(_on(cluster, names))} of 3 pods of 5 GiB have one of {CARDS} cards of 8 GiB, the third is refused"


def _functions(cluster: Cluster, node: Node) -> str:
    number = PODS_FOR_FUNCTIONS
    with _plugin(cluster, node, FUNCTION, FUNCTIONS) as plugin, _pods(cluster, "function", number, FUNCTION) as names:
        cluster.until(lambda: len(_on(cluster, names)) == FUNCTIONS, f"{FUNCTIONS} pods run")
        cluster.until(lambda: "Insufficient" in _why(cluster, names), "the others are told why they wait")
        if sorted(set(plugin.allocated)) != sorted(plugin.allocated):
            raise RuntimeError(f"a function was given twice: {plugin.allocated}")
        return (
            f"{len(_on(cluster, names))} of {number} pods have one of {FUNCTIONS} virtual functions, none given twice"
        )


@contextlib.contextmanager
def _plugin(cluster: Cluster, node: Node, resource: str, count: int) -> Iterator[DevicePlugin]:
    folder = node.folder / "disk/var/lib/kubelet/device-plugins"
    with DevicePlugin(folder, resource, [f"{resource.rpartition('/')[2]}-{each}" for each in range(count)]) as plugin:
        status = f"/api/v1/nodes/{node.name}"
        cluster.until(
            lambda: cluster.api.call("GET", status)["status"]["allocatable"].get(resource) == str(count),
            f"{node.name} has {count} {resource}",
        )
        yield plugin


@contextlib.contextmanager
def _pods(cluster: Cluster, name: str, count: int, resource: str, memory: str = "") -> Iterator[Sequence[str]]:
    """That many, each asking for one of the resource. memory: of one card."""
    names = [f"{name}-{number}" for number in range(count)]
    container = {"name": "main", "image": SANDBOX, "resources": {"limits": {resource: "1"}}}
    annotations = {DEVICE_MEMORY_ANNOTATION: memory} if memory else {}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    try:
        for each in names:
            cluster.api.call("POST", PODS, {"metadata": {"name": each, "annotations": annotations}, "spec": spec})
        yield names
    finally:
        cluster.kubectl("delete", "pod", *names, "--ignore-not-found", "--grace-period=0", "--force")


def _on(cluster: Cluster, names: Sequence[str]) -> Mapping[str, str]:
    """Those that run, with their nodes."""
    pods = [cluster.api.call("GET", f"{PODS}/{name}") for name in names]
    running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in running}


def _why(cluster: Cluster, names: Sequence[str]) -> str:
    """What kube-scheduler says of those that have no node."""
    pods = [cluster.api.call("GET", f"{PODS}/{name}") for name in names]
    conditions = [each for pod in pods for each in pod["status"].get("conditions", [])]
    return " ".join(each.get("message", "") for each in conditions if each.get("reason") == "Unschedulable")
