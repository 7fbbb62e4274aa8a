import errno

import pytest

from agent.hardware import compute, disks
from agent.hardware.monitor import hardware_metrics
from agent.hardware.reading import Absent, Failed, HardwareReading, Measured, Overdue, delta_between, run_collector
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


@pytest.mark.parametrize(
    ("items", "raised", "outcome"),
    [
        ([SAMPLE], None, Measured(10.0, 2.0, (SAMPLE,))),
        ([SAMPLE, SensorFault("fan1")], None, Measured(10.0, 2.0, (SAMPLE,), ("fan1",))),
        ([SensorFault("fan1"), SensorFault("fan2")], None, Failed("fan1; fan2", 2.0)),
        ([], None, Absent("the collector found no device of its kind", 2.0)),
        ([], NoData("no ECC"), Absent("no ECC", 2.0)),
        *(
            ([], OSError(number, "none", "/sys/x"), Absent("/sys/x: none", 2.0))
            for number in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
        ),
        ([], OSError(errno.EACCES, "no", "/sys/x"), Failed("PermissionError: [Errno 13] no: '/sys/x'", 2.0)),
        ([], OSError(errno.EIO, "no", "/sys/x"), Failed("OSError: [Errno 5] no: '/sys/x'", 2.0)),
        ([], KeyError("x"), Failed("KeyError: 'x'", 2.0)),
    ],
)
def test_what_this_kernel_does_not_have_is_told_apart_from_what_failed(items, raised, outcome) -> None:
    assert run(*items, raising=raised) == outcome


def reading(at_seconds, *samples):
    return HardwareReading(at_seconds + 1, {"only": Measured(at_seconds, 0.1, samples), "b": Failed("broken")})


def test_rates_are_per_second_between_the_starts_of_one_collector_and_of_no_counter_that_is_new_or_was_reset() -> None:
    before = reading(100, disks.READS(10, "sda"), disks.READS(10, "sdb"))
    after = reading(104, disks.READS(30, "sda"), disks.READS(3, "sdb"), disks.READS(3, "new"))
    assert delta_between(before, after).rates(disks.READS) == {("sda",): 5.0}
    assert delta_between(after, after).rates(disks.READS) == {}
    first = delta_between(None, after)
    assert (first.values(disks.READS)["sda",], first.rates(disks.READS)) == (30, {})


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Measured(0.0, 0.1, (SAMPLE,)), (1, 0, 0)),
        (Measured(0.0, 0.1, (SAMPLE,), ("fan1",)), (0, 0, 0)),
        (Absent("none"), (1, 1, 0)),
        (Failed("broken"), (0, 0, 0)),
        (Overdue(1, 2.0), (0, 0, 1)),
    ],
)
def test_every_outcome_is_told_apart_on_metrics(outcome, expected) -> None:
    found = {metric.name: metric for metric in hardware_metrics(HardwareReading(1.0, {"it": outcome}))}
    names = ("success", "absent", "quarantined")
    assert tuple(found[f"leadsman_collector_{name}"].samples[0].value for name in names) == expected
