"""Reads NVIDIA GPUs through NVML (nvidia-ml-py, the extra `gpu`). Source: docs.nvidia.com/deploy/nvml-api.

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

from leadsman.plugin import HostRoots, MetricFamily, NoData, Sample, SensorFault, gauge


def _gauge(name: str, text: str) -> MetricFamily:
    return gauge(f"gpu_{name}", text, "gpu", "uuid")


UTILIZATION = _gauge("utilization_ratio", "Share of the last sample period in which a kernel ran.")
MEMORY_USED = _gauge("memory_used_bytes", "GPU memory in use.")
MEMORY_SIZE = _gauge("memory_size_bytes", "GPU memory.")
TEMPERATURE = _gauge("temperature_celsius", "GPU temperature.")
POWER = _gauge("power_watts", "Power drawn by the GPU's board.")
ROW_REMAP_FAILURE = _gauge("row_remap_failure", "1 when a row of the GPU's memory could not be remapped.")
UNCORRECTABLE_ERRORS = _gauge("uncorrectable_errors", "Uncorrectable ECC errors since the driver was loaded.")
THROTTLE_REASONS = _gauge("clocks_event_reasons", "Why clocks are lowered, in the bits of nvml.h.")
XID = _gauge("xid_errors", "The last XID error; 0: none since the agent opened NVML.")

READS: Mapping[MetricFamily, Callable[[Any, Any], float]] = {
    UTILIZATION: lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
    MEMORY_USED: lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used,
    MEMORY_SIZE: lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total,
    TEMPERATURE: lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    POWER: lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
    ROW_REMAP_FAILURE: lambda nvml, gpu: nvml.nvmlDeviceGetRemappedRows(gpu)[-1],
    UNCORRECTABLE_ERRORS: lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(
        gpu, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    ),
    # By the older of two names, which all drivers have.
    THROTTLE_REASONS: lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
}
"""Maps each family to its value of a GPU."""

LIBRARY = "libnvidia-ml.so.1"
LOADER_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
LOADER_CACHE = Path("/etc/ld.so.cache")

_ABSENT = ("LibraryNotFound", "DriverNotLoaded")
_MOST_EVENTS = 64
"""At most so many events are read at once: a GPU that fails without end must not take the collector's second."""

_LOOK_AGAIN_ROUNDS = 12
"""A minute at the default interval: loading NVML costs far more than a round may."""


class NvidiaCollector:
    """A collector that keeps NVML open between readings.

    load: gives the module; raises ImportError when there is none, NoData when the driver's library is not there.
    """

    def __init__(self, load: Callable[[], Any] = lambda: _pynvml()) -> None:
        self._load = load
        self._nvml: Any = None
        self._xids = XidErrors()
        self._absent = ""
        self._rest = 0

    def __call__(self, roots: HostRoots) -> Iterator[Sample | SensorFault]:
        if self._nvml is None:
            self._open()
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError:
            self._nvml = None
            raise
        for index in range(count):
            yield from _gpu(self._nvml, index, self._xids)

    def _open(self) -> None:
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

    def last(self, nvml: Any, handle: Any) -> int:
        """Returns the last XID; 0 from the first reading on, which asks for the GPU's events."""
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        if self._events is None:
            self._events = nvml.nvmlEventSetCreate()
        if uuid not in self._last:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
            self._last[uuid] = 0
        self._take_events(nvml)
        return self._last[uuid]

    def _take_events(self, nvml: Any) -> None:
        """Takes the events of all GPUs, and waits for none."""
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
    for family, read in (*READS.items(), (XID, xids.last)):
        try:
            yield family(read(nvml, handle), str(index), uuid)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            continue
        except nvml.NVMLError as error:
            yield SensorFault(f"GPU {index}: {error}")


def _text(value: str | bytes) -> str:
    """Returns NVML's answer as text: older releases of nvidia-ml-py answer bytes."""
    return value.decode() if isinstance(value, bytes) else value
