import errno
from typing import TYPE_CHECKING

import pytest

from agent.hardware import compute, kernel_files
from agent.hardware.kernel_files import HostRoots, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Values


def test_percent_become_ratios_and_microseconds_seconds() -> None:
    text = "some avg10=4.50 avg60=1.2 avg300=0.8 total=2500000\nfull avg10=1.00 avg60=0 avg300=0 total=500000\n"
    assert compute.parse_pressure(text) == compute.Pressure(compute.Stall(0.045, 2.5), compute.Stall(0.01, 0.5))


def test_irq_has_full_only(server: HostRoots, values: "Values") -> None:
    assert values(compute.collect_pressure, server, compute.STALLED_SECONDS["irq"]) == {(): 2.203344}
    assert values(compute.collect_pressure, server, compute.WAITING_RATIO["irq"]) == {}


def test_a_kernel_without_psi_has_nothing(tree: "Tree") -> None:
    with pytest.raises(NoData, match="psi=0"):
        list(compute.collect_pressure(tree({"proc/loadavg": "0"})))


def test_psi_switched_off_at_boot_is_nothing_too(server: HostRoots, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there, reading it answers EOPNOTSUPP."""

    def refuse(path):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(kernel_files, "read_file", refuse)
    with pytest.raises(NoData, match="psi=0"):
        list(compute.collect_pressure(server))
