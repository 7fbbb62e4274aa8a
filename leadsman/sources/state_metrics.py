"""Metrics of how the state in etcd is followed."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from leadsman.state.follower import Follower


def state_follower_metrics(follower: Follower) -> Iterator[Metric]:
    """How often the state was listed, and its watch opened again."""
    yield CounterMetricFamily(
        "leadsman_state_relists", "Times that the state was listed whole from etcd.", follower.relists
    )
    yield CounterMetricFamily(
        "leadsman_state_reconnects", "Times that the watch on the state was lost and opened again.", follower.reconnects
    )
