from typing import TYPE_CHECKING

import pytest

from agent.hardware import compute
from agent.hardware.monitor import hardware_metrics
from agent.hardware.reading import Absent, Failed, HardwareReading, Measured, Overdue
from leadsman.plugin import HostRoots

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import ReadingOf

LOAD = compute.LOAD1(0.5)


def flags(outcome):
    """(success, absent, quarantined) of one collector."""
    found = {metric.name: metric for metric in hardware_metrics(HardwareReading(1.0, 7, {"it": outcome}))}
    names = ("success", "absent", "quarantined")
    return tuple(found[f"leadsman_collector_{name}"].samples[0].value for name in names)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Measured(0.0, 0.1, (LOAD,)), (1, 0, 0)),
        (Measured(0.0, 0.1, (LOAD,), ("fan1",)), (0, 0, 0)),
        (Absent("none"), (1, 1, 0)),
        (Failed("broken"), (0, 0, 0)),
        (Overdue(1, 2.0), (0, 0, 1)),
    ],
)
def test_every_outcome_is_told_apart(outcome, expected) -> None:
    assert flags(outcome) == expected


def test_before_the_first_reading_there_is_nothing() -> None:
    assert list(hardware_metrics(None)) == []


def test_a_failed_collector_leaves_no_old_series() -> None:
    assert "leadsman_load1" not in {
        metric.name for metric in hardware_metrics(HardwareReading(1.0, 7, {"load": Failed("x")}))
    }


def test_duration_and_rounds() -> None:
    found = {metric.name: metric for metric in hardware_metrics(HardwareReading(1.0, 7, {"it": Overdue(1, 2.5)}))}
    assert found["leadsman_collector_duration_seconds"].samples[0].value == 2.5
    assert found["leadsman_hardware_rounds"].samples[0].value == 7


def test_a_scrape_reads_no_file(server: HostRoots, reading_of: "ReadingOf", monkeypatch: pytest.MonkeyPatch) -> None:
    reading = reading_of(server)
    monkeypatch.setattr("os.open", None)
    monkeypatch.setattr("os.listdir", None)
    assert len(list(hardware_metrics(reading))) > 40
