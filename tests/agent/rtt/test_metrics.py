import pytest

from agent.rtt.peer import Answered, Lost, Peer, ProbeResult, ProbeSettings
from agent.rtt.peer_stats import Probe
from agent.rtt.prober import Prober, rtt_metrics
from leadsman.state.records import ProbeMethod

PEERS = [Peer("near", "10.0.0.1"), Peer("far", "10.0.0.2")]


@pytest.fixture
def prober():
    """near answered 4 ms and was lost once; far answered 40 ms."""
    prober = Prober(ProbeSettings())
    prober.set_peers(PEERS)
    prober.stats.start_round(0.0)
    results: list[tuple[str, ProbeResult]] = [("near", Answered(0.004)), ("near", Lost()), ("far", Answered(0.040))]
    for name, result in results:
        target = prober.stats.targets[name]
        probe = Probe(target, ProbeMethod.ICMP)
        prober.stats.record_sent(probe)
        prober.stats.record_result(probe, 1.0, result)
    return prober


def samples(prober, now=1.5, lasting=frozenset({"near", "far"})):
    """Each sample's name and labels → its value."""
    found = [sample for family in rtt_metrics(prober, now, lasting) for sample in family.samples]
    return {(sample.name, *sorted(sample.labels.values())): sample.value for sample in found}


def test_the_values_are_in_seconds_and_per_peer(prober) -> None:
    found = samples(prober)
    assert found["leadsman_peer_rtt_p50_seconds", "near"] == 0.004
    assert found["leadsman_peer_loss_ratio", "near"] == 0.5
    assert found["leadsman_peer_probes_lost_total", "near"] == 1
    assert found["leadsman_peer_probes_sent_total", "far"] == 1
    assert found["leadsman_peer_icmp_blocked", "far"] == 0
    assert (found["leadsman_rtt_seconds_count",], found["leadsman_rtt_seconds_sum",]) == (2, 0.044)


def test_the_series_of_a_departed_peer_go_and_what_counts_all_peers_stays(prober) -> None:
    prober.set_peers(PEERS[:1])
    found = samples(prober)
    assert not any("far" in each for each in found)
    assert (found["leadsman_rtt_seconds_count",], found["leadsman_probes_sent_total",]) == (2, 3)


def test_a_peer_that_rotates_has_no_series_and_counts_with_the_others(prober) -> None:
    found = samples(prober, lasting={"near"})
    assert not any("far" in each for each in found)
    assert found["leadsman_peers", "lasting"] == found["leadsman_peers", "rotating"] == 1
    assert found["leadsman_probes_sent_total",] == 3


def test_during_a_fault_no_window_is_shown(prober) -> None:
    assert not any(name == "leadsman_peer_loss_ratio" for name, *_ in samples(prober, now=10.0))
