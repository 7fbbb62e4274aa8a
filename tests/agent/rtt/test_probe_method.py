import pytest

from agent.rtt.peer import MethodSelector, ProbeMode
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


def test_a_peer_that_answers_icmp_is_never_bothered_by_tcp() -> None:
    assert set(rounds(MethodSelector(ProbeMode.AUTO), 200, icmp=True, tcp=True)) == {(ICMP,)}


def test_a_peer_that_answers_only_tcp_is_probed_by_tcp_within_ten_turns() -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    rounds(choice, 10, icmp=False, tcp=True)
    assert choice.method is TCP
    assert choice.icmp_blocked


def test_a_peer_that_answers_nothing_stays_with_icmp() -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    rounds(choice, 500, icmp=False, tcp=False)
    assert choice.method is ICMP
    assert not choice.icmp_blocked


def test_five_losses_in_a_row_do_not_condemn_icmp_that_once_answered() -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    rounds(choice, 1, icmp=True, tcp=True)
    rounds(choice, 20, icmp=False, tcp=True)
    assert choice.method is ICMP


def test_icmp_that_is_blocked_later_gives_way_too() -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    rounds(choice, 1, icmp=True, tcp=True)
    rounds(choice, 40, icmp=False, tcp=True)
    assert choice.method is TCP


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


def test_a_change_is_told_once() -> None:
    choice = MethodSelector(ProbeMode.AUTO)
    for _ in range(5):
        assert not choice.record_result(ICMP, False)
    assert choice.record_result(TCP, True)
    assert not choice.record_result(TCP, True)


@pytest.mark.parametrize(("mode", "method"), [(ProbeMode.ICMP, ICMP), (ProbeMode.TCP, TCP)])
def test_a_fixed_mode_stays(mode, method) -> None:
    choice = MethodSelector(mode)
    assert set(rounds(choice, 100, icmp=mode is ProbeMode.TCP, tcp=mode is ProbeMode.ICMP)) == {(method,)}
    assert not choice.icmp_blocked
