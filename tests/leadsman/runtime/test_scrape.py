from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.runtime.scrape import create_registry


def test_what_a_source_has_dropped_is_gone_from_the_next_scrape() -> None:
    peers = ["a", "b"]

    def source() -> Iterator[Metric]:
        rtt = GaugeMetricFamily("rtt_seconds", "Round trip.", labels=["peer"])
        for peer in peers:
            rtt.add_metric([peer], 1)
        yield rtt

    registry = create_registry(source)
    assert 'peer="a"' in generate_latest(registry).decode()
    peers.remove("a")
    assert 'peer="a"' not in generate_latest(registry).decode()
