"""A device plugin that registers with a kubelet, as one of a vendor does: devices of a resource, each given away once.

https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto
"""

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from tests.e2e.disturbances import Skipped

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
