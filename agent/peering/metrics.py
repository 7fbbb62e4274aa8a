"""How the agent finds its peers, for /metrics."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from agent.peering.peer_refresh import PeerRefresher
from agent.peering.probe_requests import ProbeRequestHandler


def families(neighbours: PeerRefresher, requests: ProbeRequestHandler) -> Iterator[Metric]:
    estimated = neighbours.selection.ring_size.nodes
    yield GaugeMetricFamily("leadsman_nodes_estimated", "Nodes, counted or estimated from the ring.", estimated)
    yield GaugeMetricFamily("leadsman_nodes_assumed", "Nodes that the rhythm reckons with.", neighbours.assumed_nodes)
    interval = neighbours.probe_interval_seconds
    yield GaugeMetricFamily("leadsman_probe_interval_seconds", "Time between two probes to one peer.", interval)
    error = neighbours.own_coordinate.current.error
    yield GaugeMetricFamily("leadsman_coordinate_error_ratio", "Relative error that the coordinate expects.", error)
    yield CounterMetricFamily("leadsman_ring_reads", "Readings of the ring.", neighbours.refreshes)
    failures = CounterMetricFamily("leadsman_ring_read_failures", "Readings that failed, by cause.", labels=["cause"])
    for cause, count in neighbours.failures.items():
        failures.add_metric([cause], count)
    yield failures
    served = CounterMetricFamily("leadsman_probe_requests", "Requests to probe a pair, by result.", labels=["result"])
    for result, count in requests.result_counts.items():
        served.add_metric([result], count)
    yield served
