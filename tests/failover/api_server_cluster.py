"""The nine agents of `agent_cluster` with a real kube-apiserver, and with a scripted one.

On the real one Leases are renewed with the rights of a node, and controllers fail dead nodes over, with the rights of
their components and no other. Nothing binds pods: `KubernetesCluster` adds that.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.failover.agent_cluster import NODES, ZONES, AgentCluster, Rhythm
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.paper_cluster import CONTROLLER, EXTENDER, MANIFESTS, add_node, install
from tests.testbed.scripted_api_server import ApiServerThread

AMOUNTS = {"cpu": "8", "memory": "8Gi", "pods": "110"}


class ApiServerCluster(AgentCluster):
    """binaries: the folder of kube-apiserver and etcd. controller_flags: beside those that failover needs."""

    acts = True

    def __init__(self, binaries: Path, folder: Path, rhythm: Rhythm, *controller_flags: str) -> None:
        super().__init__(folder, rhythm)
        self._binaries = binaries
        self.controller_flags = ("--backups", "--failover", *controller_flags)

    @property
    def living_kubelets(self) -> set[str]:
        """Their nodes. Other threads may ask."""
        return {node for node, process in [*self._kubelets.items()] if process.poll() is None}

    def silence_api(self) -> None:
        os.kill(self.kubernetes.pid, signal.SIGSTOP)

    def heal_api(self) -> None:
        os.kill(self.kubernetes.pid, signal.SIGCONT)

    def _start_kubernetes(self, stack: contextlib.ExitStack) -> None:
        self.kubernetes = stack.enter_context(
            KubeApiServer(
                self._binaries,
                self._folder / "kubernetes",
                address=self._uplinks.local_address,
                users={_user(node): ("system:nodes",) for node in NODES} | {CONTROLLER: (), EXTENDER: ()},
                flags=("--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction"),
            )
        )
        self.api_server = f"kube-apiserver {self.kubernetes.call('GET', '/version')['gitVersion']}"
        self.api_flags = ("--kubeconfig", str(self.kubernetes.kubeconfig(CONTROLLER)))
        install(self.kubernetes, "base/namespace.yaml", "base/serviceaccounts.yaml", *_manifests())
        for zone, nodes in ZONES.items():
            for node in nodes:
                labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": node}
                add_node(self.kubernetes, node, AMOUNTS, **labels)

    def _node_access(self, node: str) -> list[str]:
        api = self.kubernetes
        return ["--server", api.url, "--ca", str(api.ca_file), "--token", api.token(_user(node))]

    def _conditions(self, node: str) -> list[dict[str, Any]]:
        return list(self.kubernetes.call("GET", f"/api/v1/nodes/{node}")["status"].get("conditions", ()))


def _user(node: str) -> str:
    return f"system:node:{node}"


def _manifests() -> Iterator[str]:
    """What the components install."""
    for component in ("controller", "self-healing"):
        folder = f"components/{component}"
        for resource in yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["resources"]:
            yield f"{folder}/{resource}"


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
