"""Devices on the cluster: cards and virtual functions that a device plugin has registered with a real kubelet."""

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from leadsman.cluster.devices.cards import NVIDIA_MEMORY
from leadsman.cluster.devices.demand import NVIDIA_CARD
from leadsman.kube.names import DEVICE_MEMORY_ANNOTATION
from tests.e2e.chart import change_values
from tests.e2e.cluster import Cluster
from tests.e2e.disturbances import Skipped, node_of
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
def _plugin(cluster: Cluster, node: Node, resource: str, count: int) -> Iterator["DevicePlugin"]:
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


# A device plugin, as one of a vendor is: devices of a resource, each given away once.
# https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto

SERVICE, VERSION = "v1beta1.DevicePlugin", "v1beta1"
_STRING = 2
"""Protobuf's wire type of strings and messages."""

_CALL_SECONDS = 10.0


class DevicePlugin:
    """Serves from entry to exit. folder: the kubelet's `device-plugins`. Skipped where grpcio is not installed."""

    def __init__(self, folder: Path, resource: str, devices: Sequence[str]) -> None:
        self._folder, self._resource, self._devices = folder, resource, devices
        self.allocated = list[str]()
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        try:
            grpc = importlib.import_module("grpc")
        except ImportError:
            raise Skipped("pip install grpcio") from None
        endpoint = f"{self._resource.replace('/', '-')}.sock"
        self._server = grpc.server(ThreadPoolExecutor())
        self._server.add_generic_rpc_handlers((self._handler(grpc),))
        self._server.add_insecure_port(f"unix://{self._folder / endpoint}")
        self._server.start()
        request = _field(1, VERSION.encode()) + _field(2, endpoint.encode()) + _field(3, self._resource.encode())
        with grpc.insecure_channel(f"unix://{self._folder}/kubelet.sock") as channel:
            channel.unary_unary("/v1beta1.Registration/Register")(request, timeout=_CALL_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.stop(None).wait()

    def _handler(self, grpc: Any) -> Any:
        unary: Callable[..., Any] = grpc.unary_unary_rpc_method_handler
        methods = {
            "GetDevicePluginOptions": unary(lambda _request, _context: b""),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list),
            "Allocate": unary(self._allocate),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _list(self, _request: bytes, _context: object) -> Iterator[bytes]:
        """All are healthy, for as long as the stream lasts."""
        yield b"".join(_field(1, _field(1, each.encode()) + _field(2, b"Healthy")) for each in self._devices)
        self._stop.wait()

    def _allocate(self, request: bytes, _context: object) -> bytes:
        containers = list(_fields(request))
        self.allocated += [device.decode() for container in containers for device in _fields(container)]
        return b"".join(_field(1, b"") for _ in containers)


def _field(number: int, value: bytes) -> bytes:
    """Of fewer than 2^14 bytes: a varint of one byte or two."""
    size = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 127 | 128, len(value) >> 7])
    return bytes([number << 3 | _STRING]) + size + value


def _fields(message: bytes) -> Iterator[bytes]:
    """The values of a message that has none but one repeated field of strings or messages."""
    at = 0
    while at < len(message):
        size, shift, at = 0, 0, at + 1
        while True:
            byte, at = message[at], at + 1
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        yield message[at : at + size]
        at += size
