"""Fake kubelets: pods that crash as their node's fault makes them, written to a fake API server. Pure.

A node with a fault crashes every pod of the type at multiples of its period; a pod that is a service is restarted, one
that runs once fails. What is real: the agents that watch this, and everything behind them.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

POD_TYPE = "D"
"""The type's name in kubeRL's experiment."""

_PATH = "/api/v1/namespaces/default/pods/"


class FakePod(Struct):
    """One pod.

    lifetime_seconds: how long it runs without a crash; None: it is a service and is restarted.
    ended_seconds: None while it runs.
    """

    name: str
    node: str
    started_seconds: float
    lifetime_seconds: float | None = None
    restarts: int = 0
    phase: str = "Running"
    ended_seconds: float | None = None


class FakeKubelets:
    """The kubelets of all nodes.

    faults: node → seconds between two crashes; remove a node to repair it.
    pods: those that exist, by name.
    crashes: node → number of crashes so far.
    """

    def __init__(self, faults: Mapping[str, float], epoch: float) -> None:
        self.faults, self.pods = dict(faults), dict[str, FakePod]()
        self.crashes: dict[str, int] = {}
        self._epoch, self._stepped_at = epoch, 0.0

    def start_pod(
        self, name: str, node: str, now: float, lifetime_seconds: float | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts a pod. Its path and body."""
        self.pods[name] = FakePod(name, node, now, lifetime_seconds)
        return self._written(self.pods[name])

    def step(self, now: float) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Moves time to `now`. The changes: path and body, None when the pod was deleted."""
        crashed = {node for node, period in self.faults.items() if now // period > self._stepped_at // period}
        self._stepped_at = now
        for pod in list(self.pods.values()):
            yield from self._stepped(pod, now, pod.node in crashed)

    def running(self, node: str) -> int:
        return sum(pod.node == node and pod.phase == "Running" for pod in self.pods.values())

    def _stepped(self, pod: FakePod, now: float, crashed: bool) -> Iterator[tuple[str, dict[str, Any] | None]]:
        if pod.ended_seconds is not None:
            if now - pod.ended_seconds > 1.0:
                yield f"{_PATH}{self.pods.pop(pod.name).name}", None
        elif crashed and pod.started_seconds < now:
            yield self._crashed(pod, now)
        elif pod.lifetime_seconds is not None and now - pod.started_seconds >= pod.lifetime_seconds:
            pod.phase, pod.ended_seconds = "Succeeded", now
            yield self._written(pod)

    def _crashed(self, pod: FakePod, now: float) -> tuple[str, dict[str, Any]]:
        self.crashes[pod.node] = self.crashes.get(pod.node, 0) + 1
        if pod.lifetime_seconds is None:
            pod.restarts, pod.started_seconds = pod.restarts + 1, now
        else:
            pod.phase, pod.ended_seconds = "Failed", now
        return self._written(pod)

    def _written(self, pod: FakePod) -> tuple[str, dict[str, Any]]:
        status = {"phase": pod.phase, "containerStatuses": [self._container(pod)]}
        meta = {"name": pod.name, "namespace": "default", "labels": {"podtype": POD_TYPE}}
        spec = {"nodeName": pod.node, "containers": [{"name": "main", "image": "demo"}]}
        return f"{_PATH}{pod.name}", {"metadata": meta, "spec": spec, "status": status}

    def _container(self, pod: FakePod) -> dict[str, Any]:
        runs = pod.phase == "Running"
        now = (
            {"running": {"startedAt": self._at(pod.started_seconds)}}
            if runs
            else self._end(pod, int(pod.phase == "Failed"))
        )
        last = self._end(pod, 1) if pod.restarts else {}
        return {"name": "main", "restartCount": pod.restarts, "ready": runs, "state": now, "lastState": last}

    def _end(self, pod: FakePod, exit_code: int) -> dict[str, Any]:
        over = pod.ended_seconds if pod.ended_seconds is not None else pod.started_seconds
        times = {"startedAt": self._at(pod.started_seconds), "finishedAt": self._at(over)}
        return {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"} | times}

    def _at(self, seconds: float) -> str:
        return datetime.fromtimestamp(self._epoch + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
