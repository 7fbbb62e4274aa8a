"""NVIDIA GPUs through NVML (nvidia-ml-py, the extra `gpu`). Source: docs.nvidia.com/deploy/nvml-api.

Loaded at the first reading. No package, no driver or no GPU is "absent"; it is looked for again every minute,
since a GPU operator brings the driver after the node has started.
"""

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from agent.hardware.samples import HostRoots, NoData, Sample, SensorFault, gauge

UTILIZATION = gauge("gpu_utilization_ratio", "Share of the last sample period in which a kernel ran.", "gpu", "uuid")
MEMORY_USED = gauge("gpu_memory_used_bytes", "GPU memory in use.", "gpu", "uuid")
MEMORY_SIZE = gauge("gpu_memory_size_bytes", "GPU memory.", "gpu", "uuid")
TEMPERATURE = gauge("gpu_temperature_celsius", "GPU temperature.", "gpu", "uuid")
POWER = gauge("gpu_power_watts", "Power drawn by the GPU's board.", "gpu", "uuid")

_ABSENT = ("LibraryNotFound", "DriverNotLoaded")
_LOOK_AGAIN_ROUNDS = 12
"""A minute at the default interval: loading NVML costs far more than a round may."""


class NvidiaCollector:
    """A collector that keeps NVML open between readings. load: gives the module; ImportError when there is none."""

    def __init__(self, load: Callable[[], Any] = lambda: _pynvml()) -> None:
        self._load = load
        self._nvml: Any = None
        self._absent = ""
        self._rest = 0

    def __call__(self, roots: HostRoots) -> Iterator[Sample | SensorFault]:
        nvml = self._open()
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError:
            self._nvml = None
            raise
        for index in range(count):
            yield from _gpu(nvml, index)

    def _open(self) -> Any:
        if self._nvml is None:
            self._wait_or_load()
        return self._nvml

    def _wait_or_load(self) -> None:
        if self._rest:
            self._rest -= 1
            raise NoData(self._absent)
        try:
            self._nvml = _started(self._load)
        except NoData as absent:
            self._absent, self._rest = str(absent), _LOOK_AGAIN_ROUNDS
            raise


def _pynvml() -> ModuleType:
    return importlib.import_module("pynvml")


def _started(load: Callable[[], Any]) -> Any:
    try:
        nvml = load()
    except ImportError as error:
        raise NoData("nvidia-ml-py is not installed (the extra `gpu` brings it)") from error
    try:
        nvml.nvmlInit()
    except tuple(getattr(nvml, f"NVMLError_{name}") for name in _ABSENT) as error:
        raise NoData(f"no NVIDIA driver: {error}") from error
    return nvml


def _gpu(nvml: Any, index: int) -> Iterator[Sample | SensorFault]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
    except nvml.NVMLError as error:
        yield SensorFault(f"GPU {index}: {error}")
        return
    for read in (_busy, _memory, _temperature, _power):
        yield from _attempt(nvml, handle, read, (str(index), uuid))


def _attempt(nvml: Any, handle: Any, read: Callable[..., Iterator[Sample]], gpu: tuple[str, str]) -> Iterator[Any]:
    try:
        yield from read(nvml, handle, gpu)
    except nvml.NVMLError_NotSupported:
        return
    except nvml.NVMLError as error:
        yield SensorFault(f"GPU {gpu[0]}: {error}")


def _busy(nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
    yield UTILIZATION(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100, *gpu)


def _memory(nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    yield MEMORY_USED(memory.used, *gpu)
    yield MEMORY_SIZE(memory.total, *gpu)


def _temperature(nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
    yield TEMPERATURE(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU), *gpu)


def _power(nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
    yield POWER(nvml.nvmlDeviceGetPowerUsage(handle) / 1e3, *gpu)


def _text(value: str | bytes) -> str:
    """Older releases of nvidia-ml-py answer bytes."""
    return value.decode() if isinstance(value, bytes) else value
