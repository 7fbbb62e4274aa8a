"""The nine agents of `agent_cluster` with a scripted API server."""

import contextlib
from typing import Any

from tests.failover.agent_cluster import ZONES, AgentCluster
from tests.testbed.scripted_api_server import ApiServerThread


class ScriptedCluster(AgentCluster):
    """Its controllers judge nodes and act on nothing."""

    api_server, acts = "a scripted API server", False

    def silence_api(self) -> None:
        self.api.call(lambda server: server.silence())

    def heal_api(self) -> None:
        self.api.call(lambda server: server.heal())

    def _start_kubernetes(self, stack: contextlib.ExitStack) -> None:
        address = self._uplinks.local_address
        self.api = stack.enter_context(ApiServerThread(host=address))
        self.api_url = self.api.url.replace("127.0.0.1", address)
        self.api_flags = ("--kube-api", self.api_url)
        for zone, nodes in ZONES.items():
            for node in nodes:
                labels = {"topology.kubernetes.io/zone": zone}
                self.api.put(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})

    def _node_access(self, node: str) -> list[str]:
        return ["--server", self.api_url]

    def _conditions(self, node: str) -> list[dict[str, Any]]:
        listed = self.api.call(lambda server: [each.after for each in server.objects.log if each.path.name == node])
        status = next((one["status"] for one in reversed(listed) if one and "status" in one), {})
        return list(status.get("conditions", ()))
