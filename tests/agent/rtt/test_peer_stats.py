import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rtt.peer import Answered, Lost, Peer, ProbeSettings
from agent.rtt.peer_stats import LocalFaultDetector, PeerStats, Probe, ProbeWindow, jitter, nearest_rank
from leadsman.state.records import Latency, PeerSilence, ProbeMethod, decode_record, encode_record

ONE, TWO = Peer("one", "10.0.0.1"), Peer("two", "10.0.0.2")


def of(*peers):
    ledger = PeerStats(ProbeSettings())
    ledger.set_peers(peers)
    ledger.start_round(0.0)
    return ledger


def probe(ledger, name, method=ProbeMethod.ICMP):
    return Probe(ledger.targets[name], method)


def end(ledger, name, sent, result, method=ProbeMethod.ICMP):
    asked = probe(ledger, name, method)
    ledger.record_sent(asked)
    ledger.record_result(asked, sent, result)


def test_nothing_is_kept_of_a_departed_peer() -> None:
    ledger = of(ONE, TWO)
    end(ledger, "one", 1.0, Answered(0.004))
    late = probe(ledger, "one")
    assert ledger.set_peers([TWO]) == (["one"], [])
    ledger.record_result(late, 1.5, Answered(0.004))
    ledger.set_peers([ONE, TWO])
    assert ledger.latencies(2.0) == {}


def silent_for(ledger, seconds):
    for second in range(seconds):
        for name in ledger.targets:
            end(ledger, name, 10.0 + second, Lost())


def test_a_silence_of_all_peers_makes_all_unknown_and_no_loss_of_it_remains() -> None:
    ledger = of(ONE, TWO)
    for name in ledger.targets:
        end(ledger, name, 9.5, Answered(0.004))
    silent_for(ledger, 10)
    assert ledger.local_fault(20.0) == ledger.reachability(20.0).local_fault
    assert ledger.latencies(20.0) == {}
    assert ledger.silent_peers(20.0) == set()
    end(ledger, "one", 20.0, Answered(0.004))
    assert ledger.local_fault(20.5) is None
    assert {latency.loss_ratio for latency in ledger.latencies(20.5).values()} == {0.0}


def test_a_loss_of_a_local_fault_that_is_known_only_after_it_is_none() -> None:
    ledger = of(ONE, TWO)
    for name in ledger.targets:
        end(ledger, name, 9.5, Answered(0.004))
    silent_for(ledger, 10)
    end(ledger, "one", 20.0, Answered(0.004))
    end(ledger, "two", 19.6, Lost())
    assert ledger.latencies(20.7)["two"].loss_ratio == 0.0
    end(ledger, "one", 20.9, Answered(0.004))
    end(ledger, "two", 20.6, Lost())
    assert ledger.latencies(21.7)["two"].loss_ratio == 0.5


def test_a_window_never_mixes_methods() -> None:
    ledger = of(ONE)
    for second in range(5):
        end(ledger, "one", second, Lost())
    end(ledger, "one", 5.0, Answered(0.004), ProbeMethod.TCP)
    latency = ledger.latencies(6.0)["one"]
    assert (latency.method, latency.sent, latency.received) == (ProbeMethod.TCP, 1, 1)


def test_a_probe_kept_back_is_no_loss_but_speaks_against_the_method() -> None:
    ledger = of(ONE)
    for _ in range(5):
        ledger.record_unsent(probe(ledger, "one"))
    assert ledger.latencies(5.0) == {}
    assert ledger.targets["one"].counts.unsent == 5
    end(ledger, "one", 5.0, Answered(0.004), ProbeMethod.TCP)
    assert ledger.targets["one"].method_selector.icmp_blocked


def test_another_pace_is_another_window_for_those_here_and_those_to_come() -> None:
    ledger = of(ONE)
    ledger.set_timing(4.0, 40.0)
    ledger.set_peers([ONE, TWO])
    for name in ("one", "two"):
        end(ledger, name, 0.0, Answered(0.004))
        assert ledger.latencies(39.0)[name].sent == 1
    assert ledger.latencies(41.0) == {}


def test_a_peer_is_silent_after_three_losses_and_each_change_is_told_once() -> None:
    calls = []
    ledger = PeerStats(ProbeSettings(), on_silence=lambda: calls.append(1))
    ledger.set_peers([ONE, TWO])
    ledger.start_round(0.0)
    end(ledger, "one", 1.0, Answered(0.004))
    end(ledger, "two", 1.0, Answered(0.004))
    for sent in (2.0, 3.0, 4.0, 5.0):
        end(ledger, "one", sent, Lost())
        end(ledger, "two", sent, Answered(0.004))
    said = ledger.reachability(6.0)
    assert (said.losses, said.probed, said.answering) == ({"one": 4, "two": 0}, 2, 1)
    assert said.silences == {"one": PeerSilence(first_loss_age_seconds=4.0, last_reply_age_seconds=4.996)}
    assert len(calls) == 1
    end(ledger, "one", 6.0, Answered(0.004))
    assert ledger.reachability(7.0).silent_peers == set()
    assert len(calls) == 2


def test_the_loss_of_a_probe_sent_before_the_last_answered_one_is_no_silence() -> None:
    ledger = of(ONE)
    end(ledger, "one", 2.0, Answered(0.004))
    for sent in (1.0, 1.1, 1.2):
        end(ledger, "one", sent, Lost())
    assert ledger.reachability(3.0).losses == {"one": 0}


def watched(peers):
    silence = LocalFaultDetector(5.0)
    silence.set_peer_count(peers, 0.0)
    return silence


def test_a_silence_of_all_peers_is_a_fault_after_the_patience_and_says_how_long() -> None:
    silence = watched(peers=3)
    assert silence.fault(5.0) is None
    assert "no peer has answered for 6 s" in silence.fault(6.0)


def test_one_peer_alone_proves_nothing() -> None:
    assert watched(peers=1).fault(100.0) is None


def test_time_without_peers_to_hear_is_no_silence() -> None:
    silence = watched(peers=0)
    silence.set_peer_count(0, 1000.0)
    silence.set_peer_count(4, 1001.0)
    assert silence.fault(1004.0) is None
    assert silence.fault(1007.0) is not None


rtts = st.floats(0.001, 1000)
outcomes = st.lists(st.tuples(st.floats(0, 1000), st.none() | rtts), max_size=60)


def filled(*rtts_ms, span=30.0):
    """One probe a second, from second 0 on."""
    window = ProbeWindow(span)
    for second, rtt_ms in enumerate(rtts_ms):
        window.add(float(second), rtt_ms)
    return window


@pytest.mark.parametrize(
    ("outcomes", "now", "known"),
    [
        ([], 0, {"sent": 0, "received": 0, "p50_ms": None, "p95_ms": None, "loss_ratio": None}),
        # Percentiles are values that were measured.
        (range(1, 21), 19, {"min_ms": 1, "p50_ms": 10, "p95_ms": 19}),
        # A lost probe counts as sent and is no latency.
        ([2.0, None, 4.0, None], 3, {"sent": 4, "received": 2, "min_ms": 2.0, "p95_ms": 4.0, "loss_ratio": 0.5}),
        # Jitter is the mean step between neighbours.
        ([1.0, 3.0, 2.0], 2, {"jitter_ms": 1.5}),
        ([1.0], 0, {"jitter_ms": None, "p50_ms": 1.0, "p95_ms": 1.0}),
        # What is older than the span is forgotten; the last reply ages beyond it.
        ([100.0, *[None] * 30, 1.0], 31, {"p95_ms": 1.0}),
        ([500.0, None], 60, {"sent": 0, "last_reply_age_seconds": 59.5}),
    ],
)
def test_what_a_window_knows_of_one_probe_a_second(outcomes, now, known) -> None:
    found = filled(*outcomes).latency(now, ProbeMethod.ICMP)
    assert {name: getattr(found, name) for name in known} == known


def test_a_loss_later_than_the_last_proof_of_life_does_not_count_yet() -> None:
    window = filled(1.0, None, None)
    assert window.latency(2, ProbeMethod.ICMP, losses_until=1.0).sent == 2
    assert window.latency(2, ProbeMethod.ICMP).sent == 3


def test_losses_of_a_gap_are_taken_back_and_replies_stay() -> None:
    window = filled(1.0, None, 2.0, None, None)
    window.forget_losses(after=0.0, before=4.0)
    found = window.latency(4, ProbeMethod.ICMP)
    assert (found.sent, found.received) == (3, 2)


@given(outcomes, st.floats(0, 1000), st.sampled_from(ProbeMethod))
def test_any_window_makes_a_record_that_readers_take(given_outcomes, now, method) -> None:
    window = ProbeWindow(100)
    for sent, rtt_ms in given_outcomes:
        window.add(sent, rtt_ms)
    record = Latency({"peer": window.latency(now, method)})
    assert decode_record(Latency, encode_record(record)) == record


@given(st.lists(rtts, min_size=1), st.floats(0.01, 1))
def test_at_least_the_share_lies_at_or_below_the_nearest_rank_and_less_below_the_one_before(values, share) -> None:
    ordered = sorted(values)
    found = nearest_rank(ordered, share)
    assert found in ordered
    assert sum(v <= found for v in ordered) >= share * len(ordered)
    assert sum(v < found for v in ordered) < share * len(ordered)


@given(st.lists(rtts, min_size=2))
def test_jitter_is_at_most_the_range(values) -> None:
    assert jitter(values) <= (max(values) - min(values)) * (1 + 1e-9)
