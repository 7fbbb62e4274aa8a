import errno

import pytest

from agent.hardware import compute
from agent.hardware.reading import Absent, Failed, HardwareReading, Measured, run_collector
from leadsman.plugin import HostRoots, NoData, SensorFault

SAMPLE = compute.LOAD1(0.5)


def run(*items, raising=None):
    """The outcome of a collector that yields items, then raises; it takes two seconds."""
    ticks = iter([10.0, 12.0])

    def collect(roots):
        yield from items
        if raising:
            raise raising

    return run_collector(collect, HostRoots(), lambda: next(ticks))


def test_samples_are_measured_with_start_and_duration() -> None:
    assert run(SAMPLE) == Measured(10.0, 2.0, (SAMPLE,))


def test_a_fault_beside_samples_is_kept() -> None:
    assert run(SAMPLE, SensorFault("fan1")) == Measured(10.0, 2.0, (SAMPLE,), ("fan1",))


def test_faults_alone_are_failure() -> None:
    assert run(SensorFault("fan1"), SensorFault("fan2")) == Failed("fan1; fan2", 2.0)


def test_nothing_yielded_is_absent() -> None:
    assert run() == Absent("the collector found no device of its kind", 2.0)


def test_nothing_here_is_absent_with_its_reason() -> None:
    assert run(raising=NoData("no ECC")) == Absent("no ECC", 2.0)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP])
def test_what_this_kernel_does_not_have_is_absent(number) -> None:
    assert run(raising=OSError(number, "none", "/sys/x")) == Absent("/sys/x: none", 2.0)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_what_is_refused_or_broken_has_failed(number) -> None:
    assert isinstance(run(raising=OSError(number, "no", "/sys/x")), Failed)


def test_a_bug_in_a_collector_is_its_own_failure() -> None:
    assert run(raising=KeyError("x")) == Failed("KeyError: 'x'", 2.0)


def test_a_reading_gives_the_measured_samples_only() -> None:
    reading = HardwareReading(
        20.0, 1, {"a": Measured(10.0, 1.0, (SAMPLE,)), "b": Absent("none"), "c": Failed("broken")}
    )
    assert list(reading.samples()) == [(SAMPLE, 10.0)]
