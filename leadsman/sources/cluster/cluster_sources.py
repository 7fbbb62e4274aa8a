"""Builds and runs what is followed on the API server, through one client: workloads, node roles, node addresses."""

import time
from collections.abc import Coroutine, Iterator
from typing import Any

from prometheus_client.core import Metric

from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.cluster import metrics
from leadsman.sources.cluster.node_addresses import NodeAddressFollower
from leadsman.sources.cluster.node_roles import NodeRoleFollower
from leadsman.sources.cluster.workload_follower import WorkloadFollower


class ClusterSources:
    """The sources on the API server. Enter `client`, then run the tasks.

    client: entering it raises ApiAccessError when the access cannot be used.
    addresses: whether to follow the nodes' addresses too.
    """

    def __init__(self, access: ApiAccess, addresses: bool = False) -> None:
        self.client = ApiClient(access)
        self.node_addresses = NodeAddressFollower(self.client) if addresses else None
        self.workloads = WorkloadFollower(self.client)
        self.node_roles = NodeRoleFollower(self.client)

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each task; all run until cancelled."""
        yield "watch workload pods", self.workloads.run()
        yield "watch node roles", self.node_roles.run()
        if self.node_addresses:
            yield "watch node addresses", self.node_addresses.run()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        return metrics.reflector_metrics((*self.workloads.reflectors, self.node_roles.reflector), time.monotonic())
