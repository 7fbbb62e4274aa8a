"""`leadsman demo rewards`: kubeRL's experiment on this machine.

Pods crash every 10 s on one node, every 60 s on another, never on the rest; later pods of the type go elsewhere; then
the worst node is repaired and gets its share back. Agents, etcd and extender are real processes; the API server and the
kubelets behind it are fake. Time is compressed, and the screen says by how much.
"""

import logging
import sys
import time
from collections import Counter, deque
from contextlib import ExitStack
from random import Random
from typing import Any

from leadsman.cli.demo import scheduler_request
from leadsman.cli.demo.child_processes import ChildProcesses, DemoFailed, say
from leadsman.cli.demo.fake_kubelets import POD_TYPE, FakeKubelets
from leadsman.runtime.text_table import align_columns
from leadsman.testbed.etcd import Etcd, free_ports
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
AGENT_INTERVALS_SECONDS = {
    "push-interval": 1,
    "call-timeout": 1,
    "probe-interval": 1,
    "window": 10,
    "health-summary": 1,
}


def run(seed: int) -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    with ExitStack() as stack:
        api = stack.enter_context(ApiServerThread())
        processes = stack.enter_context(ChildProcesses())
        etcd = stack.enter_context(Etcd(processes.folder / "etcd"))
        experiment = RewardsExperiment(api, processes, _start_processes(processes, etcd, api), seed)
        experiment.wait_until_fresh()
        experiment.learn()
        experiment.place_later_pods()
        experiment.repair()


def _start_processes(processes: ChildProcesses, etcd: Etcd, api: ApiServerThread) -> tuple[str, str]:
    """Starts everything. URLs of the extender, for kube-scheduler and of its API."""
    follow = {"kube-api": api.url, "half-life-seconds": str(HALF_LIFE_SECONDS), "etcd": etcd.client_url}
    for number, (node, port) in enumerate(zip(NODES, free_ports(len(NODES)), strict=True), start=1):
        address = f"127.0.8.{number}"
        flags = {"address": address, "listen": f"{address}:{port}", **follow}
        processes.start_agent(node, flags, AGENT_INTERVALS_SECONDS)
    extender, _, extender_api = processes.start_extender(etcd.client_url)
    say(f"started    etcd, {len(NODES)} agents, one extender; a fake API server")
    return extender, extender_api


class RewardsExperiment:
    """The three parts of the experiment, each with its screen."""

    def __init__(
        self, api: ApiServerThread, processes: ChildProcesses, extender_urls: tuple[str, str], seed: int
    ) -> None:
        """extender_urls: for kube-scheduler, and of its API."""
        self._api, self._processes = api, processes
        self._extender, self._extender_api = extender_urls
        self._rng, self._began = Random(seed), time.monotonic()
        self._kubelets = FakeKubelets(CRASH_PERIODS_SECONDS, time.time())
        self._placed, self._number = Counter[str](), 0
        self._lately: deque[str] = deque(maxlen=RECENT_PODS)
        self._explained: dict[str, Any] = {}
        self._drawn_at, self._lines = float("-inf"), 0

    def wait_until_fresh(self) -> None:
        """Waits until every agent reports."""
        self._processes.wait_until(self._all_fresh, "every agent reports", READY_WITHIN_SECONDS)

    def learn(self) -> None:
        """Runs one pod of the type on every node, as in kubeRL's demo, and places none yet."""
        _title(
            f"1. A service of type {POD_TYPE} runs on every node. It crashes every 10 s on {WORST_NODE}, "
            f"every 60 s on {BAD_NODE}.\n"
            f"   Compressed: crashes come {TIME_COMPRESSION:g} times as fast, and evidence loses half its weight in "
            f"{HALF_LIFE_SECONDS:g} s instead of an hour, {HOUR_SECONDS / HALF_LIFE_SECONDS:,.0f} times as fast."
        )
        for node in NODES:
            self._put(*self._kubelets.start_pod(f"service-{node}", node, self._now()))
        until = self._now() + LEARN_SECONDS
        while self._now() < until:
            self._tick(place=False)
        self._draw(last=True)

    def place_later_pods(self) -> None:
        """Places pods while the faults last. DemoFailed when too many go to the nodes at fault."""
        _title(f"2. {LATER_PODS} more pods of the type are scheduled, while the faults last.")
        while self._placed.total() < LATER_PODS:
            self._tick(place=True)
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
            self._tick(place=True)
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

    def _tick(self, place: bool) -> None:
        self._check()
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
        explanation = scheduler_request.explanation(self._extender_api, f"default/later-{self._number}")
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
        print(f"{up}{text}", flush=True)
        self._drawn_at, self._lines = self._now(), 0 if last else text.count("\n") + 1

    def _all_fresh(self) -> bool:
        nodes = scheduler_request.reporting_nodes(self._extender_api)
        return [node["status"] for node in nodes] == ["fresh"] * len(NODES)

    def _check(self) -> None:
        if exited := self._processes.first_exit():
            raise DemoFailed(exited)

    def _put(self, path: str, body: dict[str, Any] | None) -> None:
        if body is None:
            self._api.delete(path)
        else:
            self._api.put(path, body)

    def _now(self) -> float:
        return time.monotonic() - self._began


def _title(text: str) -> None:
    print(f"\n{text}\n", flush=True)
