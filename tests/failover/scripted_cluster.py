"""The nine agents of `agent_cluster` with a scripted API server; a thread renews the Leases of living nodes."""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.failover.agent_cluster import NODES, ZONES, AgentCluster, Rhythm
from tests.testbed.scripted_api_server import ApiServerThread


class ScriptedCluster(AgentCluster):
    """Its controllers judge nodes and act on nothing."""

    api_server, acts = "a scripted API server", False

    def unplug(self, node: str) -> None:
        super().unplug(node)
        self.stop_kubelet(node)

    def plug_in(self, node: str) -> None:
        super().plug_in(node)
        self.start_kubelet(node)

    def set_clocks(self, offset_seconds: int) -> None:
        super().set_clocks(offset_seconds)
        self.kubelets.clock_offset = timedelta(seconds=offset_seconds)

    def start_kubelet(self, node: str, late_seconds: float = 0.0) -> None:
        self.kubelets.late_seconds[node] = late_seconds
        self.kubelets.stopped.discard(node)

    def stop_kubelet(self, node: str) -> None:
        self.kubelets.stopped.add(node)

    def silence_api(self) -> None:
        self.kubelets.api_is_away = True
        self.api.call(lambda server: server.silence())

    def heal_api(self) -> None:
        self.api.call(lambda server: server.heal())
        self.kubelets.api_is_away = False

    def _start_kubernetes(self, stack: contextlib.ExitStack) -> None:
        self.api = stack.enter_context(ApiServerThread())
        self.api_flags = ("--kube-api", self.api.url)
        for zone, nodes in ZONES.items():
            for node in nodes:
                labels = {"topology.kubernetes.io/zone": zone}
                self.api.put(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        self.kubelets = stack.enter_context(Kubelets(self.api.put, self.rhythm))

    def _conditions(self, node: str) -> list[dict[str, Any]]:
        listed = self.api.call(lambda server: [each.after for each in server.objects.log if each.path.name == node])
        status = next((one["status"] for one in reversed(listed) if one and "status" in one), {})
        return list(status.get("conditions", ()))


class Kubelets:
    """Renews a Lease for each node that lives, in a thread.

    stopped: nodes whose kubelet does not run. late_seconds: node → how much later it renews.
    clock_offset: of what they write as renewTime.
    """

    def __init__(self, put: Callable[[str, dict[str, Any]], object], rhythm: Rhythm) -> None:
        self.stopped: set[str] = set()
        self.late_seconds: dict[str, float] = {}
        self.clock_offset = timedelta()
        self.api_is_away = False
        self._write, self._rhythm, self._rng = put, rhythm, random.Random(1)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="kubelets", daemon=True)

    def __enter__(self) -> "Kubelets":
        for node in NODES:
            self._put(node)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _renew(self) -> None:
        interval = self._rhythm.lease / 4
        due = {node: time.monotonic() + self._rng.uniform(0, interval) for node in NODES}
        while not self._ended.wait(0.05):
            now = time.monotonic()
            for node in [node for node, at in due.items() if at <= now]:
                due[node] = now + interval * self._rng.uniform(1.0, 1.04) + self.late_seconds.get(node, 0.0)
                if node not in self.stopped and not self.api_is_away:
                    self._put(node)

    def _put(self, node: str) -> None:
        at = datetime.now(UTC) + self.clock_offset
        spec = {"holderIdentity": node, "leaseDurationSeconds": self._rhythm.lease, "renewTime": f"{at:%FT%T.%fZ}"}
        self._write(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}", {"spec": spec})
