"""`leadsman demo rewards`: kubeRL's experiment on this machine.

Pods crash every 10 s on one node, every 60 s on another, never on the rest; later pods of the type go elsewhere; then
the worst node is repaired and gets its share back. Agents, etcd and extender are real processes; the API server and the
kubelets behind it are fake. Time is compressed, and the screen says by how much.
"""

import logging
import sys
import textwrap
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from random import Random
from typing import Any

from msgspec import Struct

from leadsman.cli.demo import scheduler_request
from leadsman.cli.demo.house import DemoFailed, House, PageAddress, say
from leadsman.runtime.text_table import align_columns, unescaped
from leadsman.testbed.etcd import free_ports
from leadsman.testbed.fake_api_server import ApiServerThread

NODES = tuple(f"node-{number}" for number in range(1, 7))
WORST_NODE, BAD_NODE = NODES[:2]
GOOD_NODES = NODES[2:]

HEADER = ["NODE", "FAULT", "CRASHES", "REWARD", "BLAME", "SCORE", "LATER PODS", "OF THE LAST 40"]

TIME_COMPRESSION = 20.0
"""Crashes every 10 and 60 s come every 0.5 and 3 s."""
CRASH_PERIODS_SECONDS = {WORST_NODE: 10.0 / TIME_COMPRESSION, BAD_NODE: 60.0 / TIME_COMPRESSION}
HALF_LIFE_SECONDS = 3.6
HOUR_SECONDS = 3600.0

LEARN_SECONDS = 6.0
LATER_PODS = 100
PLACEMENT_INTERVAL_SECONDS = 0.1
POD_LIFETIME_SECONDS = 1.5
RECENT_PODS = 40
ELSEWHERE_TARGET = 0.95
FAIR_SHARE_TARGET = 0.9
RECOVER_WITHIN_SECONDS = 180.0
READY_WITHIN_SECONDS = 60.0
INTERVALS = {"probe-interval-seconds": "1", "window-seconds": "10", "health-summary-seconds": "1"}


def run(page: PageAddress) -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    with ExitStack() as stack:
        api = stack.enter_context(ApiServerThread())
        demo = stack.enter_context(House(page))
        follow = {"kube-api": api.url, "half-life-seconds": str(HALF_LIFE_SECONDS), **INTERVALS}
        for number, (node, port) in enumerate(zip(NODES, free_ports(len(NODES)), strict=True), start=1):
            address = f"127.0.8.{number}"
            demo.start_agent(node, {"address": address, "listen": f"{address}:{port}", **follow})
        experiment = RewardsExperiment(api, demo, demo.start_extender())
        say(f"started    an etcd, {len(NODES)} agents, an extender; a fake API server")
        experiment.wait_until_fresh()
        experiment.learn()
        experiment.place_later_pods()
        experiment.repair()
        demo.stay("rewards", "nodes", f"explain later-{LATER_PODS}", step=lambda: experiment.tick(place=True))


class RewardsExperiment:
    """The three parts of the experiment, each with its screen."""

    def __init__(self, api: ApiServerThread, demo: House, extender: str) -> None:
        """extender: its URL for kube-scheduler."""
        self._api, self._house, self._extender = api, demo, extender
        self._rng, self._began = Random(1), time.monotonic()
        self._kubelets = FakeKubelets(CRASH_PERIODS_SECONDS, time.time())
        self._placed, self._number = Counter[str](), 0
        self._lately: deque[str] = deque(maxlen=RECENT_PODS)
        self._explained: dict[str, Any] = {}
        self._drawn_at, self._lines = float("-inf"), 0

    def wait_until_fresh(self) -> None:
        """Waits until every agent reports."""
        self._house.wait_until(self._all_fresh, "every agent reports", READY_WITHIN_SECONDS)

    def learn(self) -> None:
        """Runs one pod of the type on every node, as in kubeRL's demo, and places none yet."""
        _title(
            f"1. A service of type {POD_TYPE} runs on every node. It crashes every 10 s on {WORST_NODE}, "
            f"every 60 s on {BAD_NODE}. "
            f"Compressed: crashes come {TIME_COMPRESSION:g} times as fast, and evidence loses half its weight in "
            f"{HALF_LIFE_SECONDS:g} s instead of an hour, {HOUR_SECONDS / HALF_LIFE_SECONDS:,.0f} times as fast."
        )
        for node in NODES:
            self._put(*self._kubelets.start_pod(f"service-{node}", node, self._now()))
        until = self._now() + LEARN_SECONDS
        while self._now() < until:
            self.tick(place=False)
        self._draw(last=True)

    def place_later_pods(self) -> None:
        """Places pods while the faults last. DemoFailed when too many go to the nodes at fault."""
        _title(f"2. {LATER_PODS} more pods of the type are scheduled, while the faults last.")
        while self._placed.total() < LATER_PODS:
            self.tick(place=True)
        self._draw(last=True)
        elsewhere = sum(self._placed[node] for node in GOOD_NODES) / self._placed.total()
        print(f"{elsewhere:.0%} of the later pods went to the other nodes (target: {ELSEWHERE_TARGET:.0%}).")
        if elsewhere < ELSEWHERE_TARGET:
            raise DemoFailed(f"only {elsewhere:.0%} of the later pods went to the other nodes")

    def repair(self) -> None:
        """Repairs the worst node and waits for its fair share: what every node without a fault gets."""
        fair = 1 / (len(NODES) - 1)
        _title(f"3. {WORST_NODE} is repaired, {BAD_NODE} is not. Fair for {WORST_NODE} is {fair:.0%} of all pods.")
        del self._kubelets.faults[WORST_NODE]
        repaired, before = self._now(), self._placed.total()
        while self._lately.count(WORST_NODE) < FAIR_SHARE_TARGET * fair * RECENT_PODS:
            self.tick(place=True)
            if self._now() - repaired > RECOVER_WITHIN_SECONDS:
                raise DemoFailed(f"{WORST_NODE} did not get its share back within {RECOVER_WITHIN_SECONDS:g} s")
        self._draw(last=True)
        took, pods = self._now() - repaired, self._placed.total() - before
        lately = self._lately.count(WORST_NODE) / RECENT_PODS
        print(
            f"{WORST_NODE} got {lately:.0%} of the last {RECENT_PODS} pods, "
            f"{took:.0f} s and {pods} pods after its repair."
        )
        print(f"That is {took / HALF_LIFE_SECONDS:.0f} half-lives, of an hour each by default.")

    def tick(self, place: bool) -> None:
        """One step of kubelets and kube-scheduler. place: whether the pod that is asked about is bound."""
        self._house.check()
        for path, body in self._kubelets.step(self._now()):
            self._put(path, body)
        node = self._choose_node()
        if place:
            self._placed[node] += 1
            self._lately.append(node)
            self._put(*self._kubelets.start_pod(f"later-{self._number}", node, self._now(), POD_LIFETIME_SECONDS))
        self._draw()
        time.sleep(PLACEMENT_INTERVAL_SECONDS)

    def _choose_node(self) -> str:
        """Where kube-scheduler would bind the next pod: the best score, then fewest pods, then by chance."""
        self._number += 1
        body = scheduler_request.captured_args(NODES, {"podtype": POD_TYPE})
        body["Pod"]["metadata"] |= {"name": f"later-{self._number}", "uid": f"uid-{self._number}-{self._rng.random()}"}
        scheduler_request.filter_and_prioritize(self._extender, body)
        explanation = scheduler_request.explanation(self._house.api, f"default/later-{self._number}")
        self._explained = {each["node"]: each for each in explanation["nodes"]}
        rank = {node: (-self._score(node), self._kubelets.running(node), self._rng.random()) for node in NODES}
        return min(NODES, key=rank.__getitem__)

    def _score(self, node: str) -> int:
        return int(self._explained.get(node, {}).get("score") or 0)

    def _row(self, node: str) -> list[str]:
        measured = self._explained.get(node, {}).get("measured", {})
        known = [measured.get("reward_ratio"), measured.get("reward_blame_ratio")]
        return [
            node,
            self._fault(node),
            str(self._kubelets.crashes.get(node, 0)),
            *("-" if value is None else f"{value:.2f}" for value in known),
            str(self._score(node)),
            str(self._placed[node]),
            f"{self._lately.count(node) / max(1, len(self._lately)):.0%}",
        ]

    def _fault(self, node: str) -> str:
        """The node's fault in the experiment's own seconds, before compression."""
        if node in self._kubelets.faults:
            return f"crash every {self._kubelets.faults[node] * TIME_COMPRESSION:g} s"
        return "repaired" if node in CRASH_PERIODS_SECONDS else "none"

    def _draw(self, last: bool = False) -> None:
        """Draws the table: on a terminal twice a second, into a file the last state of each part."""
        live = sys.stdout.isatty()
        if not last and (not live or self._now() - self._drawn_at < 0.5):
            return
        text = "\n".join(align_columns([HEADER, *map(self._row, NODES)]))
        up = f"\x1b[{self._lines}A\x1b[J" if self._lines and live else ""
        print(f"{up}{text}", file=unescaped(sys.stdout), flush=True)
        self._drawn_at, self._lines = self._now(), 0 if last else text.count("\n") + 1

    def _all_fresh(self) -> bool:
        nodes = scheduler_request.reporting_nodes(self._house.api)
        return [node["status"] for node in nodes] == ["fresh"] * len(NODES)

    def _put(self, path: str, body: dict[str, Any] | None) -> None:
        if body is None:
            self._api.delete(path)
        else:
            self._api.put(path, body)

    def _now(self) -> float:
        return time.monotonic() - self._began


def _title(text: str) -> None:
    print("", textwrap.fill(text, 100), "", sep="\n", flush=True)


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
