"""Metrics of how the agent finds its peers."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from agent.peering.peer_refresh import PeerRefresher
from agent.peering.probe_requests import ProbeRequestHandler


def families(peer_refresher: PeerRefresher, requests: ProbeRequestHandler) -> Iterator[Metric]:
    estimated = peer_refresher.selection.ring_size.nodes
    yield GaugeMetricFamily(
        "leadsman_nodes_estimated", "Number of nodes, counted or estimated from the ring of peers.", estimated
    )
    yield GaugeMetricFamily(
        "leadsman_nodes_assumed",
        "Number of nodes assumed when probe and report intervals are computed.",
        peer_refresher.assumed_nodes,
    )
    interval = peer_refresher.probe_interval_seconds
    yield GaugeMetricFamily(
        "leadsman_probe_interval_seconds", "Time between two probes to one peer, in seconds.", interval
    )
    error = peer_refresher.own_coordinate.current.error
    yield GaugeMetricFamily(
        "leadsman_coordinate_error_ratio",
        "Relative error that this node's network coordinate expects of its estimates.",
        error,
    )
    yield CounterMetricFamily(
        "leadsman_coordinate_resets",
        "Times this node's network coordinate became invalid and started again at the origin.",
        peer_refresher.own_coordinate.resets,
    )
    yield CounterMetricFamily("leadsman_ring_reads", "Reads of the peer ring from etcd.", peer_refresher.refreshes)
    failures = CounterMetricFamily(
        "leadsman_ring_read_failures", "Reads of the peer ring from etcd that failed, by cause.", labels=["cause"]
    )
    for cause, count in peer_refresher.failures.items():
        failures.add_metric([cause], count)
    yield failures
    yield CounterMetricFamily(
        "leadsman_probe_request_lists_cut",
        "Reads of this node's probe requests from etcd that left some out, because they are too many.",
        requests.list.cuts,
    )
    served = CounterMetricFamily("leadsman_probe_requests", "Requests to probe a pair, by result.", labels=["result"])
    for result, count in requests.result_counts.items():
        served.add_metric([result], count)
    yield served
