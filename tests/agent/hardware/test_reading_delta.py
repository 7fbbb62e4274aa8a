from agent.hardware import compute, disks
from agent.hardware.reading import HardwareReading, Measured, delta_between


def reading(at_seconds, *samples):
    return HardwareReading(at_seconds + 1, 1, {"only": Measured(at_seconds, 0.1, samples)})


def test_rates_are_per_second_between_the_starts_of_one_collector() -> None:
    before, after = reading(100, disks.READS(10, "sda")), reading(104, disks.READS(30, "sda"))
    assert delta_between(before, after).rates(disks.READS) == {("sda",): 5.0}


def test_a_counter_that_was_reset_has_no_rate() -> None:
    before, after = reading(100, disks.READS(10, "sda")), reading(104, disks.READS(3, "sda"))
    assert delta_between(before, after).rates(disks.READS) == {}


def test_a_new_device_has_no_rate() -> None:
    assert (
        delta_between(reading(100, disks.READS(1, "sda")), reading(104, disks.READS(9, "sdb"))).rates(disks.READS) == {}
    )


def test_the_first_reading_has_values_and_no_rates() -> None:
    change = delta_between(None, reading(100, compute.LOAD1(0.5), disks.READS(9, "sda")))
    assert change.values(compute.LOAD1) == {(): 0.5}
    assert change.rates(disks.READS) == {}


def test_no_time_between_is_no_rate() -> None:
    same = reading(100, compute.SECONDS(1, "user"))
    assert delta_between(same, same).rates(compute.SECONDS) == {}
    assert delta_between(same, same).growth(compute.SECONDS) == {("user",): 0}
