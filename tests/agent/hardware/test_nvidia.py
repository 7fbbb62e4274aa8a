"""What becomes of NVML's errors, by a scripted stand-in: no GPU has confirmed it."""

from types import SimpleNamespace

from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.reading import Absent, Failed, Measured, run_collector
from leadsman.plugin import HostRoots


class Nvml:
    """One GPU whose use can be read. `fail`: a function's name → the error that it raises."""

    NVMLError = type("NVMLError", (Exception,), {})
    NVMLError_LibraryNotFound = type("LibraryNotFound", (NVMLError,), {})
    NVMLError_DriverNotLoaded = type("DriverNotLoaded", (NVMLError,), {})
    NVMLError_NotSupported = type("NotSupported", (NVMLError,), {})
    NVMLError_FunctionNotFound = type("FunctionNotFound", (NVMLError,), {})
    NVML_TEMPERATURE_GPU = NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = 0

    def __init__(self, **fail):
        self.fail, self.calls = fail, []

    def __getattr__(self, name):
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": 0,
            "nvmlDeviceGetUUID": "GPU-5f1c",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37),
        }

        def call(*_):
            self.calls.append(name)
            if name in self.fail or name not in answers:
                raise self.fail.get(name) or self.NVMLError_FunctionNotFound
            return answers[name]

        return call


def run(collector):
    return run_collector(collector, HostRoots(), lambda: 0.0)


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
