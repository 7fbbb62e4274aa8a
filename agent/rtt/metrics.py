"""Metrics of the prober, made at each scrape from memory, so that a departed peer's series are gone.

No address is a label. Series by peer exist only for probed peers whose names last (agent.peering.peer_selection): with
those that rotate, the series of 1,000 nodes would grow by 1.5 million in two hours. The histogram and the counts
without the label `peer` are of all. The series of windows are absent during a local fault.
"""

from collections.abc import Callable, Container, Iterator

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from agent.rtt.peer_stats import ProbeCounts, ProbeTarget
from agent.rtt.prober import Prober
from leadsman.runtime.scrape import counter, gauge
from leadsman.state.records import PeerLatency

_Window = Callable[[PeerLatency], float | None]
_WINDOWS: dict[str, tuple[str, _Window]] = {
    "leadsman_peer_rtt_p50_seconds": (
        "Median round-trip time to the peer in the window.",
        lambda w: _seconds(w.p50_ms),
    ),
    "leadsman_peer_rtt_p95_seconds": (
        "95th percentile of round-trip times to the peer in the window.",
        lambda w: _seconds(w.p95_ms),
    ),
    "leadsman_peer_rtt_min_seconds": (
        "Shortest round-trip time to the peer in the window.",
        lambda w: _seconds(w.min_ms),
    ),
    "leadsman_peer_rtt_jitter_seconds": (
        "Mean absolute difference of consecutive round-trip times to the peer in the window.",
        lambda w: _seconds(w.jitter_ms),
    ),
    "leadsman_peer_loss_ratio": (
        "Share of the probes sent to the peer in the window that were lost.",
        lambda w: w.loss_ratio,
    ),
    "leadsman_peer_last_reply_age_seconds": ("Time since the peer's last reply.", lambda w: w.last_reply_age_seconds),
}

_COUNTS: dict[str, tuple[str, Callable[[ProbeCounts], int]]] = {
    "probes_sent": ("Probes sent to {}.", lambda counts: counts.sent),
    "probes_lost": ("Probes to {} without a reply within the timeout.", lambda counts: counts.lost),
    "probes_unsent": ("Probes to {} that this host could not send.", lambda counts: counts.unsent),
    "probes_unusable": (
        "Replies of {} that were discarded because the wall clock stepped.",
        lambda counts: counts.unusable,
    ),
}
"""Behind `leadsman_peer_` with the label `peer`, behind `leadsman_` for all peers."""


def rtt_metrics(prober: Prober, now: float, lasting: Container[str]) -> Iterator[Metric]:
    """Returns all families of the prober. now: monotonic seconds. lasting: the peers that have series of their own."""
    targets = {name: target for name, target in prober.stats.targets.items() if name in lasting}
    yield from window_families(
        {name: window for name, window in prober.stats.latencies(now).items() if name in lasting}
    )
    yield from count_families(targets, prober.stats.counts)
    yield from _methods(targets)
    yield gauge(
        "leadsman_peers",
        "Peers under probe: those that last have series of their own, those that rotate have none.",
        {"lasting": len(targets), "rotating": len(prober.stats.targets) - len(targets)},
        "kind",
    )
    yield _histogram(prober)
    yield from _prober_metrics(prober, now)


def window_families(latencies: dict[str, PeerLatency]) -> Iterator[Metric]:
    for name, (text, value) in _WINDOWS.items():
        values = {peer: value(window) for peer, window in latencies.items()}
        yield gauge(name, text, {peer: number for peer, number in values.items() if number is not None}, "peer")


def count_families(targets: dict[str, ProbeTarget], of_all: ProbeCounts) -> Iterator[Metric]:
    for name, (text, value) in _COUNTS.items():
        by_peer = {peer: value(target.counts) for peer, target in targets.items()}
        yield counter(f"leadsman_peer_{name}", text.format("the peer"), by_peer, "peer")
        yield counter(f"leadsman_{name}", text.format("all peers"), value(of_all))


def _methods(targets: dict[str, ProbeTarget]) -> Iterator[Metric]:
    yield gauge(
        "leadsman_peer_icmp_blocked",
        "1 while the peer answers TCP and not ICMP.",
        {name: each.method_selector.icmp_blocked for name, each in targets.items()},
        "peer",
    )


def _histogram(prober: Prober) -> Metric:
    histogram = prober.stats.histogram
    buckets, total = histogram.cumulative_buckets(), histogram.sum_seconds
    return HistogramMetricFamily("leadsman_rtt_seconds", "Round-trip times to all peers.", buckets, total)


def _prober_metrics(prober: Prober, now: float) -> Iterator[Metric]:
    yield gauge(
        "leadsman_prober_fault",
        "1 while no peer answers, so that latencies are unknown.",
        prober.stats.local_fault(now) is not None,
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
