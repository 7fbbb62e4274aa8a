"""What becomes of NVML's errors, by a scripted stand-in of a GPU that reads no health: no GPU has confirmed it."""

from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.reading import Absent, Failed, Measured, run_collector
from leadsman.plugin import HostRoots


class Pair:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Nvml:
    """One GPU. `fail` maps a function's name to the error it raises."""

    NVML_TEMPERATURE_GPU = 0
    NVMLError = type("NVMLError", (Exception,), {})
    NVMLError_LibraryNotFound = type("NVMLError_LibraryNotFound", (NVMLError,), {})
    NVMLError_DriverNotLoaded = type("NVMLError_DriverNotLoaded", (NVMLError,), {})
    NVMLError_NotSupported = type("NVMLError_NotSupported", (NVMLError,), {})
    NVMLError_FunctionNotFound = type("NVMLError_FunctionNotFound", (NVMLError,), {})
    NVMLError_GpuIsLost = type("NVMLError_GpuIsLost", (NVMLError,), {})

    def __init__(self, **fail):
        self.fail, self.calls = fail, []

    def __getattr__(self, name):
        answers = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda handle: "GPU-5f1c",
            "nvmlDeviceGetUtilizationRates": lambda handle: Pair(gpu=37, memory=5),
            "nvmlDeviceGetMemoryInfo": lambda handle: Pair(total=80, free=60, used=20),
            "nvmlDeviceGetTemperature": lambda handle, sensor: 54,
            "nvmlDeviceGetPowerUsage": lambda handle: 71_500,
        }
        return lambda *arguments: self._answer(name, answers.get(name), arguments)

    def _answer(self, name, answer, arguments):
        self.calls.append(name)
        if name in self.fail:
            raise self.fail[name]
        if answer is None:
            raise self.NVMLError_FunctionNotFound
        return answer(*arguments)


def run(collector):
    return run_collector(collector, HostRoots(), lambda: 0.0)


def test_without_the_package_it_is_absent() -> None:
    def none():
        raise ImportError("pynvml")

    assert run(NvidiaCollector(none)) == Absent("nvidia-ml-py is not installed (the extra `gpu` brings it)")


def test_another_error_at_the_start_is_a_failure() -> None:
    assert isinstance(run(NvidiaCollector(lambda: Nvml(nvmlInit=Nvml.NVMLError("version mismatch")))), Failed)


def test_after_a_driver_went_away_it_is_opened_anew() -> None:
    nvml = Nvml(nvmlDeviceGetCount=Nvml.NVMLError("uninitialized"))
    collector = NvidiaCollector(lambda: nvml)
    assert isinstance(run(collector), Failed)
    nvml.fail.clear()
    assert isinstance(run(collector), Measured)
    assert nvml.calls.count("nvmlInit") == 2


def test_a_driver_that_comes_later_is_found_within_a_minute() -> None:
    nvml = Nvml(nvmlInit=Nvml.NVMLError_DriverNotLoaded())
    collector = NvidiaCollector(lambda: nvml)
    run(collector)
    nvml.fail.clear()
    outcomes = [run(collector) for _ in range(13)]
    assert [type(outcome) for outcome in outcomes] == [Absent] * 12 + [Measured]
