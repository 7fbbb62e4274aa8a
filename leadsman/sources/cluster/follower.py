"""What is followed on the API server, through one client: places of workloads, roles of nodes, and their addresses."""

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


class ClusterFollower:
    """Enter `client` first; ApiAccessError when it cannot be used. Then run the tasks.

    addresses: whether to follow the nodes' addresses too.
    """

    def __init__(self, access: ApiAccess, addresses: bool = False) -> None:
        self.client = ApiClient(access)
        self.node_addresses = NodeAddressFollower(self.client) if addresses else None
        self.workloads = WorkloadFollower(self.client)
        self.node_roles = NodeRoleFollower(self.client)

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each, to run for ever."""
        yield "follow the places of workloads", self.workloads.run()
        yield "follow the roles of nodes", self.node_roles.run()
        if self.node_addresses:
            yield "follow the addresses of nodes", self.node_addresses.run()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        return metrics.reflector_metrics((*self.workloads.reflectors, self.node_roles.reflector), time.monotonic())
