"""The nine agents of `agent_cluster` with a real kube-apiserver.

Leases are renewed with the rights of a node. Controllers fail dead nodes over, with the rights of their components and
no other. Nothing binds pods: `KubernetesCluster` adds that.
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

COMPONENTS = ("controller", "self-healing")
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
    for component in COMPONENTS:
        folder = f"components/{component}"
        for resource in yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["resources"]:
            yield f"{folder}/{resource}"
