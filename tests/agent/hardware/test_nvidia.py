"""NVML by its real Python binding, on a library built here with NVML's names: no GPU has confirmed it."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agent.hardware.nvidia import LIBRARY, library_is_there

SOURCE = Path(__file__).parents[2] / "data/nvml/nvml.c"

PROGRAM = """
import json, os, sys
from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.reading import Measured, run_collector
from leadsman.plugin import HostRoots

collector = NvidiaCollector()
for number in range(int(sys.argv[1])):
    one = run_collector(collector, HostRoots(), lambda: 0.0)
    samples = one.samples if isinstance(one, Measured) else ()
    shown = {
        "kind": type(one).__name__,
        "why": getattr(one, "reason", "") or getattr(one, "error", "") or "; ".join(getattr(one, "faults", ())),
        "values": {f"{each.family.name} {each.labels[1]}": each.value for each in samples},
        "loaded": sorted({"ctypes", "pynvml"} & set(sys.modules)),
    }
    print(json.dumps(shown))
    if number == 0 and len(sys.argv) > 2:
        os.unlink(sys.argv[2])
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


def readings(folder: Path, count: int, gone_after_the_first: Path | None = None) -> list[dict[str, Any]]:
    """So many of one collector, in a process of its own; a file may go after the first."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(count), *([str(gone_after_the_first)] if gone_after_the_first else [])],
        env={"LD_LIBRARY_PATH": str(folder), "NVML_FOLDER": str(folder)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


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
    (shown,) = readings(library, 1)
    assert (shown["kind"], shown["why"]) == ("Measured", "")
    assert shown["values"] == {f"{name} GPU-{number}": both[name] for number in (0, 1) for name in both} | {
        f"{name} GPU-0": value for name, value in health.items()
    }


def test_a_lost_gpu_is_a_fault_beside_the_other_s_samples(library: Path) -> None:
    (library / "lost").touch()
    (shown,) = readings(library, 1)
    assert shown["why"] == "GPU 0: GPU is lost"
    assert {key.split()[1] for key in shown["values"]} == {"GPU-1"}


def test_a_driver_that_is_not_loaded_is_absent_and_found_within_a_minute_once_it_is(library: Path) -> None:
    (library / "no-driver").touch()
    shown = readings(library, 14, library / "no-driver")
    assert (shown[0]["kind"], shown[0]["why"]) == ("Absent", "no NVIDIA driver: Driver Not Loaded")
    assert [each["kind"] for each in shown] == ["Absent"] * 13 + ["Measured"]


def test_after_a_driver_went_away_it_is_opened_anew(library: Path) -> None:
    (library / "unloaded").touch()
    shown = readings(library, 2, library / "unloaded")
    assert [each["kind"] for each in shown] == ["Failed", "Measured"]


def test_nothing_is_loaded_where_the_driver_s_library_is_not(tmp_path: Path) -> None:
    (shown,) = readings(tmp_path, 1)
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
