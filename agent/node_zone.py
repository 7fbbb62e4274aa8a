"""The zone of the node, read once from its Node object: before Kubernetes 1.35 nobody hands it to the node's pods."""

import logging

from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.kube.names import ZONE_LABEL
from leadsman.kube.objects import Node

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 3.0
"""The agent waits for this before it measures."""


async def read_zone(api: ApiAccess, node: str) -> str:
    """ "": the node has none, or it cannot be read, which the log says."""
    async with ApiClient(api, deadline_seconds=DEADLINE_SECONDS) as client:
        try:
            return (await client.get(f"/api/v1/nodes/{node}", Node)).metadata.labels.get(ZONE_LABEL, "")
        except ApiError as error:
            log.warning("the zone of node %s is unknown until the agent's next start, or set --zone: %s", node, error)
            return ""
