import math

from agent.rtt.peer_stats import LocalFaultDetector, SilentPeriod


def watched(peers, since=0.0, patience=5.0):
    silence = LocalFaultDetector(patience)
    silence.set_peer_count(peers, since)
    return silence


def test_a_silence_of_all_peers_is_a_fault_after_the_patience_and_says_how_long() -> None:
    silence = watched(peers=3)
    assert silence.fault(5.0) is None
    assert "no peer has answered for 6 s" in silence.fault(6.0)


def test_any_answer_ends_the_fault() -> None:
    silence = watched(peers=3)
    silence.record_reply(9.5)
    assert silence.fault(10.0) is None


def test_one_peer_alone_proves_nothing() -> None:
    silence = watched(peers=1)
    assert silence.fault(100.0) is None
    assert silence.losses_valid_until == math.inf


def test_losses_count_up_to_the_last_answered_probe() -> None:
    silence = watched(peers=2)
    silence.record_reply(4.0)
    assert silence.losses_valid_until == 4.0


def test_an_answer_to_an_older_probe_takes_nothing_back() -> None:
    silence = watched(peers=2)
    silence.record_reply(4.0)
    silence.record_reply(3.0)
    assert silence.losses_valid_until == 4.0


def test_the_end_of_a_long_silence_is_a_gap_and_of_a_short_one_none() -> None:
    silence = watched(peers=2)
    assert silence.record_reply(1.0) is None
    assert silence.record_reply(9.0) == SilentPeriod(1.0, 9.0)


def test_time_without_peers_to_hear_is_no_silence() -> None:
    silence = watched(peers=0)
    silence.set_peer_count(0, 1000.0)
    silence.set_peer_count(4, 1001.0)
    assert silence.fault(1004.0) is None
    assert silence.fault(1007.0) is not None
