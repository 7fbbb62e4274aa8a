"""What the extenders know, as their own metrics have it, and how long their view of the living nodes was not whole."""

import contextlib
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

from tests.e2e.cluster import Cluster

EXTENDERS = "/api/v1/namespaces/leadsman/pods?labelSelector=app.kubernetes.io/component%3Dextender"
INTERVAL_SECONDS = 0.5

_FRESH = re.compile(r'^leadsman_state_nodes\{freshness="fresh"\} (\S+)$', re.MULTILINE)
_DOUBTED = re.compile(r'^leadsman_reward_nodes_doubted\{type="(.*)"\} (\S+)$', re.MULTILINE)


class StateWatch:
    """Samples while something is done to the cluster.

    The view is whole while one extender answers on a living node, and each that answers has a fresh report of each
    living node.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._stop = cluster, threading.Event()
        self._addresses = list[str]()
        self._whole_at = self._longest_seconds = 0.0

    def during(self, disturb: Callable[[], None]) -> float:
        """Seconds of the longest stretch in which the view was not whole; 0: it was all the time."""
        self._whole_at = time.monotonic()
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            disturb()
        finally:
            self._stop.set()
            watcher.join()
        return self._longest_seconds

    def is_whole(self) -> bool:
        with contextlib.suppress(OSError, HTTPException):  # While the API server is away, the last ones are asked.
            self._addresses = extender_addresses(self._cluster)
        answers = [text for address in self._addresses if (text := _metrics(address))]
        counts = [float(count) for text in answers for count in _FRESH.findall(text)]
        return bool(counts) and min(counts) >= len(self._cluster.living)

    def _watch(self) -> None:
        while not self._stop.is_set():
            if self.is_whole():
                self._whole_at = time.monotonic()
            else:
                self._longest_seconds = max(self._longest_seconds, time.monotonic() - self._whole_at)
            self._stop.wait(INTERVAL_SECONDS)


def extender_addresses(cluster: Cluster) -> list[str]:
    """Of the extenders that are ready, which kube-scheduler may ask, and not on a lost node."""
    living = {node.name for node in cluster.living}
    pods = [pod for pod in cluster.api.call("GET", EXTENDERS)["items"] if pod["spec"].get("nodeName") in living]
    return [pod["status"]["podIP"] for pod in pods if _serves(pod)]


def _serves(pod: Mapping[str, Any]) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))
    return ready and "deletionTimestamp" not in pod["metadata"]


def doubted_nodes(cluster: Cluster, pod_type: str) -> int:
    """How many score below the others for the type, by the extender that has learned of fewest."""
    texts = map(_metrics, extender_addresses(cluster))
    return min((int(float(dict(_DOUBTED.findall(text)).get(pod_type, 0))) for text in texts), default=0)


def controller_series(cluster: Cluster, series: str) -> list[float]:
    """Its value in each controller that has it."""
    controllers = cluster.api.call("GET", EXTENDERS.replace("extender", "controller"))["items"]
    texts = [_metrics(pod["status"].get("podIP", ""), 9003) for pod in controllers if _serves(pod)]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(f"{series} ")]
    return [float(line.rpartition(" ")[2]) for line in lines]


def _metrics(address: str, port: int = 9002) -> str:
    """ "": it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=2) as answer:
            text: str = answer.read().decode()
    except (OSError, HTTPException):
        return ""
    return text
