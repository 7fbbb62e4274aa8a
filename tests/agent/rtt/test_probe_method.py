import pytest

from agent.rtt.peer import ProbeMode
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
