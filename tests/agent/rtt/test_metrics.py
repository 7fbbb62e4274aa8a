import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.rtt.metrics import rtt_metrics
from agent.rtt.peer import Answered, Locality, Lost, Peer, ProbeResult, ProbeSettings
from agent.rtt.peer_stats import Probe
from agent.rtt.prober import Prober
from leadsman.state.records import ProbeMethod

PEERS = [Peer("near", "10.0.0.1", "z1", "r1"), Peer("far", "10.0.0.2", "z2")]


class Collector:
    def __init__(self, prober, now, lasting):
        self._prober, self._now, self._lasting = prober, now, lasting

    def collect(self):
        return rtt_metrics(self._prober, self._now, self._lasting)


@pytest.fixture
def prober():
    """near answered 4 ms and was lost once; far answered 40 ms."""
    prober = Prober(ProbeSettings(), Locality("z1", "r1"))
    prober.set_peers(PEERS)
    prober.stats.start_round(0.0)
    results: list[tuple[str, ProbeResult]] = [("near", Answered(0.004)), ("near", Lost()), ("far", Answered(0.040))]
    for name, result in results:
        target = prober.stats.targets[name]
        assert target.endpoint is not None
        probe = Probe(target, target.endpoint, ProbeMethod.ICMP)
        prober.stats.record_sent(probe)
        prober.stats.record_result(probe, 1.0, result)
    return prober


def rendered(prober, now=1.5, lasting=frozenset({"near", "far"})):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(prober, now, lasting))
    return generate_latest(registry).decode()


def samples(text):
    found = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return {(s.name, *sorted(s.labels.values())): s.value for s in found}


def test_the_values_are_in_seconds_and_per_peer(prober) -> None:
    found = samples(rendered(prober))
    assert found["leadsman_peer_rtt_p50_seconds", "near"] == 0.004
    assert found["leadsman_peer_loss_ratio", "near"] == 0.5
    assert found["leadsman_peer_probes_lost_total", "near"] == 1
    assert found["leadsman_peer_probes_sent_total", "far"] == 1
    assert found["leadsman_peer_icmp_blocked", "far"] == 0
    assert found["leadsman_peer_probe_info", "icmp", "near", "same_rack"] == 1


def test_a_timeout_is_in_no_bucket(prober) -> None:
    found = samples(rendered(prober))
    assert found["leadsman_rtt_seconds_count", "same_rack"] == 1
    assert found["leadsman_rtt_seconds_count", "cross_zone"] == 1
    assert found["leadsman_rtt_seconds_sum", "cross_zone"] == 0.040


def test_the_series_of_a_departed_peer_go_and_the_histogram_stays(prober) -> None:
    prober.set_peers(PEERS[:1])
    text = rendered(prober)
    assert "far" not in text
    assert samples(text)["leadsman_rtt_seconds_count", "cross_zone"] == 1


def test_a_peer_that_rotates_has_no_series_and_counts_with_the_others(prober) -> None:
    text = rendered(prober, lasting={"near"})
    assert "far" not in text
    found = samples(text)
    assert found["leadsman_peers", "lasting"] == found["leadsman_peers", "rotating"] == 1
    assert found["leadsman_probes_sent_total",] == 3
    assert found["leadsman_rtt_seconds_count", "cross_zone"] == 1


def test_the_counts_of_all_peers_keep_those_that_departed(prober) -> None:
    prober.set_peers([])
    found = samples(rendered(prober))
    assert (found["leadsman_probes_sent_total",], found["leadsman_probes_lost_total",]) == (3, 1)


def test_no_address_is_a_label(prober) -> None:
    assert "10.0.0." not in rendered(prober)


def test_during_a_fault_no_window_is_shown(prober) -> None:
    assert not any(name == "leadsman_peer_loss_ratio" for name, *_ in samples(rendered(prober, now=10.0)))


@pytest.mark.integration
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: apt-get install prometheus")
def test_promtool_has_no_objection(prober) -> None:
    done = subprocess.run(["promtool", "check", "metrics"], input=rendered(prober), text=True, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
