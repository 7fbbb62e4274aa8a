from collections import Counter
from random import Random

from agent.rtt.peer import ProbeSchedule


def simulate(schedule, start, end, step=0.01):
    """(time, key) of everything due, looked at every `step` seconds."""
    found, now = [], start
    while now < end:
        found += [(now, key) for key in schedule.due(now)]
        now += step
    return found


def test_every_key_comes_once_an_interval() -> None:
    schedule = ProbeSchedule(1.0, Random(1))
    for key in map(str, range(100)):
        schedule.add(key, 0.0)
    counts = Counter(key for _, key in simulate(schedule, 0.0, 100.0))
    assert len(counts) == 100
    assert all(95 <= count <= 105 for count in counts.values())


def test_a_thousand_keys_are_spread_over_the_interval() -> None:
    schedule = ProbeSchedule(1.0, Random(1))
    for key in map(str, range(1000)):
        schedule.add(key, 0.0)
    bursts = Counter(round(now, 2) for now, _ in simulate(schedule, 0.0, 3.0))
    assert max(bursts.values()) < 30


def test_what_was_missed_is_not_caught_up() -> None:
    schedule = ProbeSchedule(1.0, Random(1))
    schedule.add("a", 0.0)
    assert schedule.due(1000.0) == ["a"]
    assert schedule.due(1000.5) == []


def test_a_removed_key_is_due_no_more_and_one_added_again_only_once() -> None:
    schedule = ProbeSchedule(1.0, Random(1))
    schedule.add("a", 0.0)
    schedule.remove("a")
    assert schedule.due(5.0) == []
    schedule.add("a", 5.0)
    schedule.remove("a")
    schedule.add("a", 5.0)
    assert schedule.due(6.0) == ["a"]


def test_a_hastened_turn_comes_once_and_the_next_an_interval_after_it() -> None:
    schedule = ProbeSchedule(1.0, Random(1))
    schedule.add("a", 0.0)
    assert schedule.due(1.0) == ["a"]
    schedule.hasten("a", 1.2)
    assert schedule.due(1.2) == ["a"]
    assert [round(now, 1) for now, _ in simulate(schedule, 1.2, 2.0)] == []
    assert schedule.due(2.4) == ["a"]
