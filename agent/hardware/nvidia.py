"""NVIDIA GPUs through NVML (nvidia-ml-py, the extra `gpu`). Source: docs.nvidia.com/deploy/nvml-api.

No library of the driver, no package, no driver or no GPU is "absent"; it is looked for again every minute, since a GPU
operator brings the driver after the node has started. The package is loaded where the library is: it takes 10 MB.

Health is what DCGM reads as XID_ERRORS, ROW_REMAP_FAILURE, ECC_DBE_VOL_TOTAL and CLOCKS_EVENT_REASONS.
"""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from leadsman.plugin import HostRoots, NoData, Sample, SensorFault, gauge

UTILIZATION = gauge("gpu_utilization_ratio", "Share of the last sample period in which a kernel ran.", "gpu", "uuid")
MEMORY_USED = gauge("gpu_memory_used_bytes", "GPU memory in use.", "gpu", "uuid")
MEMORY_SIZE = gauge("gpu_memory_size_bytes", "GPU memory.", "gpu", "uuid")
TEMPERATURE = gauge("gpu_temperature_celsius", "GPU temperature.", "gpu", "uuid")
POWER = gauge("gpu_power_watts", "Power drawn by the GPU's board.", "gpu", "uuid")
XID = gauge("gpu_xid_errors", "The last XID error; 0: none since the agent opened NVML.", "gpu", "uuid")
ROW_REMAP_FAILURE = gauge(
    "gpu_row_remap_failure", "1 when a row of the GPU's memory could not be remapped.", "gpu", "uuid"
)
UNCORRECTABLE_ERRORS = gauge(
    "gpu_uncorrectable_errors", "Uncorrectable ECC errors since the driver was loaded.", "gpu", "uuid"
)
THROTTLE_REASONS = gauge("gpu_clocks_event_reasons", "Why clocks are lowered, in the bits of nvml.h.", "gpu", "uuid")

LIBRARY = "libnvidia-ml.so.1"
LOADER_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
LOADER_CACHE = Path("/etc/ld.so.cache")

_ABSENT = ("LibraryNotFound", "DriverNotLoaded")
_MOST_EVENTS = 64
"""Read at once: a GPU that fails without end must not take the collector's second."""

_LOOK_AGAIN_ROUNDS = 12
"""A minute at the default interval: loading NVML costs far more than a round may."""


class NvidiaCollector:
    """A collector that keeps NVML open between readings.

    load: gives the module; ImportError when there is none, NoData when the driver's library is not there.
    """

    def __init__(self, load: Callable[[], Any] = lambda: _pynvml()) -> None:
        self._load = load
        self._nvml: Any = None
        self._xids = XidErrors()
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
            yield from _gpu(nvml, index, self._xids)

    def _open(self) -> Any:
        if self._nvml is None:
            self._wait_or_load()
        return self._nvml

    def _wait_or_load(self) -> None:
        if self._rest:
            self._rest -= 1
            raise NoData(self._absent)
        try:
            self._nvml, self._xids = _started(self._load), XidErrors()
        except NoData as absent:
            self._absent, self._rest = str(absent), _LOOK_AGAIN_ROUNDS
            raise


class XidErrors:
    """The last XID of each GPU, which NVML tells as events only."""

    def __init__(self) -> None:
        self._events: Any = None
        self._last: dict[str, int] = {}

    def read(self, nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
        """0 from the first reading on, which asks for the GPU's events."""
        uuid = gpu[1]
        if self._events is None:
            self._events = nvml.nvmlEventSetCreate()
        if uuid not in self._last:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
            self._last[uuid] = 0
        self._take_events(nvml)
        yield XID(self._last[uuid], *gpu)

    def _take_events(self, nvml: Any) -> None:
        """Of all GPUs. Waits for none."""
        for _ in range(_MOST_EVENTS):
            try:
                event = nvml.nvmlEventSetWait(self._events, 0)
            except nvml.NVMLError_Timeout:
                return
            self._last[_text(nvml.nvmlDeviceGetUUID(event.device))] = event.eventData


def _pynvml() -> ModuleType:
    if not library_is_there(os.environ):
        raise NoData(f"no NVIDIA driver: there is no {LIBRARY}")
    return importlib.import_module("pynvml")


def library_is_there(
    environ: Mapping[str, str], folders: tuple[str, ...] = LOADER_FOLDERS, cache: Path = LOADER_CACHE
) -> bool:
    """Tells whether the loader would find NVML, by ld.so(8): looked up without ctypes, which an agent does without."""
    searched = (*environ.get("LD_LIBRARY_PATH", "").split(":"), *folders)
    if any(folder and Path(folder, LIBRARY).exists() for folder in searched):
        return True
    try:
        return LIBRARY.encode() in cache.read_bytes()
    except OSError:
        return False


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


def _gpu(nvml: Any, index: int, xids: XidErrors) -> Iterator[Sample | SensorFault]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
    except nvml.NVMLError as error:
        yield SensorFault(f"GPU {index}: {error}")
        return
    vitals = (_busy, _memory, _temperature, _power)
    health = (xids.read, _row_remap_failure, _uncorrectable, _throttle_reasons)
    for read in (*vitals, *health):
        yield from _attempt(nvml, handle, read, (str(index), uuid))


def _attempt(nvml: Any, handle: Any, read: Callable[..., Iterator[Sample]], gpu: tuple[str, str]) -> Iterator[Any]:
    try:
        yield from read(nvml, handle, gpu)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
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


def _row_remap_failure(nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
    *_, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    yield ROW_REMAP_FAILURE(failed, *gpu)


def _uncorrectable(nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
    kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    yield UNCORRECTABLE_ERRORS(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, since), *gpu)


def _throttle_reasons(nvml: Any, handle: Any, gpu: tuple[str, str]) -> Iterator[Sample]:
    """By the older of two names, which all drivers have."""
    yield THROTTLE_REASONS(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle), *gpu)


def _text(value: str | bytes) -> str:
    """Older releases of nvidia-ml-py answer bytes."""
    return value.decode() if isinstance(value, bytes) else value
