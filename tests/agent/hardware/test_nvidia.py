"""What becomes of NVML's errors, by a scripted stand-in: no GPU has confirmed it."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.hardware.nvidia import LIBRARY, NvidiaCollector, library_is_there
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


# NVML by its real Python binding, on a library built here with NVML's names. No GPU has confirmed it.

SOURCE = Path(__file__).parents[2] / "data/nvml/nvml.c"

PROGRAM = """
import asyncio, json, sys, time
from agent.hardware.monitor import CollectorRun
from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.reading import Measured
from leadsman.plugin import HostRoots

collector = NvidiaCollector()
def once(deadline_seconds):
    async def complete():
        return await CollectorRun({"nvidia": collector}, HostRoots(), time.monotonic, deadline_seconds).complete()
    run = asyncio.run(complete())
    one = run.outcomes.get("nvidia")
    samples = one.samples if isinstance(one, Measured) else ()
    return {
        "kind": type(one).__name__,
        "why": getattr(one, "reason", "") or getattr(one, "error", "") or "; ".join(getattr(one, "faults", ())),
        "values": {f"{each.family.name} {each.labels[1]}": each.value for each in samples},
        "stuck": sorted(run.stuck),
    }
shown = once(float(sys.argv[1]))
shown["loaded"] = sorted({"ctypes", "pynvml"} & set(sys.modules))
print(json.dumps(shown), flush=True)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The folder that the loader finds it in, and that its answers depend on."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: apt-get install gcc libc6-dev")
    if find_spec("pynvml") is None:
        pytest.skip("no nvidia-ml-py: pip install -e '.[gpu]'")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / LIBRARY), str(SOURCE)], check=True)
    return tmp_path


def read(folder: Path, deadline_seconds: float = 30.0) -> dict[str, Any]:
    """One reading in a process of its own, as the agent's threads do it."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(deadline_seconds)],
        env={"LD_LIBRARY_PATH": str(folder), "NVML_FOLDER": str(folder)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    shown: dict[str, Any] = json.loads(ran.stdout)
    return shown


def test_memory_and_health_are_read_and_what_a_gpu_does_not_have_is_left_out(library: Path) -> None:
    both = {
        "gpu_utilization_ratio": 0.37,
        "gpu_memory_used_bytes": 20 << 30,
        "gpu_memory_size_bytes": 80 << 30,
        "gpu_temperature_celsius": 54,
        "gpu_power_watts": 71.5,
    }
    health = {
        "gpu_xid_errors": 79,
        "gpu_row_remap_failure": 1,
        "gpu_uncorrectable_errors": 3,
        "gpu_clocks_event_reasons": 0x40,
    }
    shown = read(library)
    assert (shown["kind"], shown["why"]) == ("Measured", "")
    assert shown["values"] == {f"{name} GPU-{number}": both[name] for number in (0, 1) for name in both} | {
        f"{name} GPU-0": value for name, value in health.items()
    }


def test_a_lost_gpu_is_a_fault_beside_the_other_s_samples(library: Path) -> None:
    (library / "lost").touch()
    shown = read(library)
    assert shown["why"] == "GPU 0: GPU is lost"
    assert {key.split()[1] for key in shown["values"]} == {"GPU-1"}


def test_a_driver_that_is_not_loaded_is_absent(library: Path) -> None:
    (library / "no-driver").touch()
    shown = read(library)
    assert (shown["kind"], shown["why"]) == ("Absent", "no NVIDIA driver: Driver Not Loaded")


def test_nothing_is_loaded_where_the_driver_s_library_is_not(tmp_path: Path) -> None:
    shown = read(tmp_path)
    assert (shown["kind"], shown["loaded"]) == ("Absent", [])
    assert LIBRARY in shown["why"]


def test_the_library_is_looked_for_where_the_loader_looks(tmp_path: Path) -> None:
    nowhere = {"folders": (str(tmp_path / "lib"),), "cache": tmp_path / "ld.so.cache"}
    assert not library_is_there({}, **nowhere)  # type: ignore[arg-type]
    (tmp_path / "ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\0libnvidia-ml.so.1\0/usr/lib/libnvidia-ml.so.1\0")
    assert library_is_there({}, **nowhere)  # type: ignore[arg-type]
    (tmp_path / "ld.so.cache").unlink()
    (tmp_path / LIBRARY).touch()
    assert library_is_there({"LD_LIBRARY_PATH": f":{tmp_path}"}, **nowhere)  # type: ignore[arg-type]
