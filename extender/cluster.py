"""What the extender follows on the API server, through one client: places of workloads, roles of nodes."""

import time
from collections.abc import Coroutine, Iterator
from typing import Any

from prometheus_client.core import Metric

from apiserver.access import Access
from apiserver.requests import Client
from extender import metrics as shown
from extender.places import ApiPlaces
from extender.roles import ApiRoles


class Cluster:
    """Enter `client` first; BadAccess when it cannot be used. Then run the tasks."""

    def __init__(self, access: Access) -> None:
        self.client = Client(access)
        self.places = ApiPlaces(self.client)
        self.roles = ApiRoles(self.client)

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each, to run for ever."""
        yield "follow the places of workloads", self.places.run()
        yield "follow the roles of nodes", self.roles.run()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        return shown.of_reflectors((*self.places.reflectors, self.roles.nodes), time.monotonic())
