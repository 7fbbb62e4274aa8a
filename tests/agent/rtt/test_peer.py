"""How and when a peer is probed: by the method that it answers, once an interval, within the bounds of the settings."""

from collections import Counter
from random import Random

import pytest

from agent.rtt.peer import ProbeMode, ProbeSchedule, ProbeSettings
from agent.rtt.peer_stats import MethodSelector
from leadsman.state.records import ProbeMethod

ICMP, TCP = ProbeMethod.ICMP, ProbeMethod.TCP


def rounds(choice, count, icmp, tcp):
    """`count` turns against a peer that answers so. The methods of each turn."""
    turns = []
    for _ in range(count):
        turns.append(choice.next_methods())
        for method in turns[-1]:
            choice.record_result(method, icmp if method is ICMP else tcp)
    return turns


@pytest.mark.parametrize(
    ("answered_before", "turns", "tcp", "found"),
    [
        # Blocked from the start: five losses are enough. Blocked later: at 20 % loss five in a row come every hour.
        (False, 10, True, TCP),
        (True, 20, True, ICMP),
        (True, 40, True, TCP),
        (False, 500, False, ICMP),
    ],
)
def test_tcp_replaces_an_icmp_that_is_silent_for_long_where_tcp_answers(answered_before, turns, tcp, found) -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    assert set(rounds(choice, 200 * answered_before, icmp=True, tcp=True)) <= {(ICMP,)}
    rounds(choice, turns, icmp=False, tcp=tcp)
    assert (choice.method, choice.icmp_blocked) == (found, found is TCP)


def test_icmp_is_tried_again_and_wins_back() -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    rounds(choice, 10, icmp=False, tcp=True)
    tries = rounds(choice, 30, icmp=True, tcp=True)
    assert (TCP, ICMP) in tries
    assert choice.method is ICMP


def test_an_answer_to_a_try_by_tcp_comes_too_late_once_icmp_has_answered() -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    rounds(choice, 5, icmp=False, tcp=False)
    choice.record_result(ICMP, True)
    assert not choice.record_result(TCP, True)
    assert choice.method is ICMP


@pytest.mark.parametrize(("mode", "method"), [(ProbeMode.ICMP, ICMP), (ProbeMode.TCP, TCP)])
def test_a_fixed_mode_stays(mode, method) -> None:
    choice = MethodSelector(mode)
    assert set(rounds(choice, 100, icmp=mode is ProbeMode.TCP, tcp=mode is ProbeMode.ICMP)) == {(method,)}
    assert not choice.icmp_blocked


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interval_seconds": 0.0}, "probe interval 0.0 s: must be 0.01 to 3600"),
        ({"timeout_seconds": 10.1}, "probe timeout 10.1 s: must be 0.001 to 10"),
        ({"timeout_seconds": float("nan")}, "probe timeout nan s"),
        ({"window_seconds": 0.5}, "window 0.5 s: must be 1 to 86400"),
        ({"tcp_port": 0}, "TCP probe port 0: must be 1 to 65535"),
    ],
)
def test_a_setting_out_of_bounds_is_named_with_what_is_allowed(change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProbeSettings(**change)
