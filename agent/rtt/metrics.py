"""The prober's numbers as Prometheus families, made at each scrape from memory: a departed peer's series are gone.

No address is a label; per-peer series exist only for the peers probed. During a fault the windows are absent.
"""

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from agent.rtt.probe_target import ProbeTarget
from agent.rtt.prober import Prober
from leadsman.state.records import PeerLatency

_PEER = ("peer",)

_Window = Callable[[PeerLatency], float | None]
_WINDOWS: dict[str, tuple[str, _Window]] = {
    "leadsman_peer_rtt_p50_seconds": ("Median round-trip time in the window", lambda w: _seconds(w.p50_ms)),
    "leadsman_peer_rtt_p95_seconds": (
        "95th percentile of round-trip times in the window",
        lambda w: _seconds(w.p95_ms),
    ),
    "leadsman_peer_rtt_min_seconds": ("Shortest round-trip time in the window", lambda w: _seconds(w.min_ms)),
    "leadsman_peer_rtt_jitter_seconds": (
        "Mean absolute difference of consecutive round-trip times in the window",
        lambda w: _seconds(w.jitter_ms),
    ),
    "leadsman_peer_loss_ratio": ("Lost probes of those sent in the window", lambda w: w.loss_ratio),
    "leadsman_peer_last_reply_age_seconds": ("Time since the last answer", lambda w: w.last_reply_age_seconds),
}

_COUNTS: dict[str, tuple[str, Callable[[ProbeTarget], float]]] = {
    "leadsman_peer_probes_sent": ("Probes sent", lambda t: t.counts.sent),
    "leadsman_peer_probes_lost": ("Probes without an answer in time", lambda t: t.counts.lost),
    "leadsman_peer_probes_unsent": ("Probes that this host kept back", lambda t: t.counts.unsent),
    "leadsman_peer_probes_unusable": (
        "Answers discarded: the wall clock was set meanwhile",
        lambda t: t.counts.unusable,
    ),
}


def families(prober: Prober, now: float) -> Iterator[Metric]:
    """All families. now: monotonic seconds."""
    yield from _windows(prober.latencies(now))
    yield from _counts(prober.stats.targets)
    yield from _methods(prober.stats.targets)
    yield _histogram(prober)
    yield from _prober_metrics(prober)


def _windows(latencies: dict[str, PeerLatency]) -> Iterator[Metric]:
    for name, (text, value) in _WINDOWS.items():
        family = GaugeMetricFamily(name, text, labels=_PEER)
        for peer, window in latencies.items():
            known = value(window)
            if known is not None:
                family.add_metric([peer], known)
        yield family


def _counts(targets: dict[str, ProbeTarget]) -> Iterator[Metric]:
    for name, (text, value) in _COUNTS.items():
        family = CounterMetricFamily(name, text, labels=_PEER)
        for peer, target in targets.items():
            family.add_metric([peer], value(target))
        yield family


def _methods(targets: dict[str, ProbeTarget]) -> Iterator[Metric]:
    info = GaugeMetricFamily("leadsman_peer_probe_info", "How the peer is probed", labels=("peer", "method", "class"))
    blocked = GaugeMetricFamily("leadsman_peer_icmp_blocked", "1: the peer answers TCP and not ICMP", labels=_PEER)
    for peer, target in targets.items():
        info.add_metric([peer, target.method_selector.method, target.path_class], 1)
        blocked.add_metric([peer], target.method_selector.icmp_blocked)
    yield from (info, blocked)


def _histogram(prober: Prober) -> Metric:
    family = HistogramMetricFamily("leadsman_rtt_seconds", "Round-trip times by class of path", labels=("class",))
    for path, histogram in prober.stats.histograms.items():
        family.add_metric([path], histogram.cumulative_buckets(), histogram.sum_seconds)
    return family


def _prober_metrics(prober: Prober) -> Iterator[Metric]:
    yield CounterMetricFamily("leadsman_prober_rounds", "Probe intervals gone through", value=prober.rounds)
    yield GaugeMetricFamily(
        "leadsman_prober_fault", "1: no peer answers, so latencies are unknown", value=prober.local_fault is not None
    )
    yield GaugeMetricFamily(
        "leadsman_prober_icmp_refused", "1: the kernel allows no ICMP socket", value=prober.icmp_refusal is not None
    )
    strays = CounterMetricFamily("leadsman_prober_strays", "ICMP messages that answer no probe", labels=("reason",))
    for reason, count in prober.unmatched_replies.items():
        strays.add_metric([reason], count)
    yield strays


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
