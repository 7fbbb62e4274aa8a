"""What is followed on the API server, through one client: places of workloads, roles of nodes, and their addresses."""

import time
from collections.abc import Coroutine, Iterator
from typing import Any

from prometheus_client.core import Metric

from apiserver.access import Access
from apiserver.requests import Client
from places import metrics
from places.addresses import ApiAddresses
from places.pods import ApiPlaces
from places.roles import ApiRoles


class Cluster:
    """Enter `client` first; BadAccess when it cannot be used. Then run the tasks. addresses: None unless asked for."""

    def __init__(self, access: Access, addresses: bool = False) -> None:
        self.client = Client(access)
        self.addresses = ApiAddresses(self.client) if addresses else None
        self.places = ApiPlaces(self.client)
        self.roles = ApiRoles(self.client)

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each, to run for ever."""
        yield "follow the places of workloads", self.places.run()
        yield "follow the roles of nodes", self.roles.run()
        if self.addresses:
            yield "follow the addresses of nodes", self.addresses.run()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        return metrics.of_reflectors((*self.places.reflectors, self.roles.nodes), time.monotonic())
