"""`leadsman demo rewards`: kubeRL's experiment on this machine.

Pods crash every 10 s on one node, every 60 s on another, never on the rest; later pods of the type go elsewhere; then
the worst node is repaired and gets its share back. Agents, etcd and extender are real processes; the API server is a
scripted one, and the kubelets behind it are played. Time is compressed, and the screen says by how much.
"""

import json
import logging
import sys
import time
from collections import Counter, deque
from contextlib import ExitStack
from random import Random
from typing import Any
from urllib.error import URLError

from leadsman.demo import request, rewards_screen
from leadsman.demo.cluster import DemoFailed
from leadsman.demo.processes import Processes
from leadsman.demo.rewards_kubelet import TYPE, Kubelets
from leadsman.demo.rewards_screen import Row
from testbed.apithread import ApiThread
from testbed.etcd import Etcd, free_ports

NODES = tuple(f"node-{number}" for number in range(1, 7))
WORST, BAD = NODES[:2]
GOOD = NODES[2:]

COMPRESSED = 20.0
"""Crashes every 10 and 60 s come every 0.5 and 3 s."""
FAULTS = {WORST: 10.0 / COMPRESSED, BAD: 60.0 / COMPRESSED}
HALF_LIFE_SECONDS = 3.6
HOUR_SECONDS = 3600.0

LEARN_SECONDS = 6.0
LATER_PODS = 100
PLACE_EVERY_SECONDS = 0.1
RUNS_SECONDS = 1.5
LATELY = 40
ELSEWHERE_TARGET = 0.95
FAIR_TARGET = 0.9
BACK_WITHIN_SECONDS = 180.0
READY_WITHIN_SECONDS = 60.0
RHYTHM = {"push-interval": 1, "call-timeout": 1, "probe-interval": 1, "window": 10, "account": 1}


def run(seed: int) -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    with ExitStack() as stack:
        api = stack.enter_context(ApiThread())
        processes = stack.enter_context(Processes())
        etcd = stack.enter_context(Etcd(processes.folder / "etcd"))
        experiment = Experiment(api, processes, _started(processes, etcd, api), seed)
        experiment.wait()
        experiment.learn()
        experiment.later()
        experiment.repair()


def _started(processes: Processes, etcd: Etcd, api: ApiThread) -> str:
    """The extender's URL."""
    rhythm = [word for name, seconds in RHYTHM.items() for word in (f"--{name}-seconds", str(seconds))]
    follow = ["--kube-api", api.url, "--half-life-seconds", str(HALF_LIFE_SECONDS), *rhythm]
    for number, (node, port) in enumerate(zip(NODES, free_ports(len(NODES)), strict=True), start=1):
        address = f"127.0.8.{number}"
        listen = ["--address", address, "--listen", f"{address}:{port}", "--etcd", etcd.client_url]
        processes.start(f"agent-{node}", ["agent", "--node-name", node, *listen, *follow])
    port, ops = free_ports(2)
    serving = ["--plain-http", "--listen", f"127.0.0.1:{port}", "--ops-listen", f"127.0.0.1:{ops}"]
    processes.start("extender", ["extender", *serving, "--etcd", etcd.client_url])
    _say(f"started    etcd, {len(NODES)} agents, one extender; a scripted API server")
    return f"http://127.0.0.1:{port}"


class Experiment:
    def __init__(self, api: ApiThread, processes: Processes, extender: str, seed: int) -> None:
        self._api, self._processes, self._extender = api, processes, extender
        self._rng, self._began = Random(seed), time.monotonic()
        self._kubelets = Kubelets(FAULTS, time.time())
        self._placed, self._number = Counter[str](), 0
        self._lately: deque[str] = deque(maxlen=LATELY)
        self._explained: dict[str, Any] = {}
        self._drawn_at, self._lines = float("-inf"), 0

    def wait(self) -> None:
        """Until every agent reports."""
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while (fresh := self._fresh()) < len(NODES):
            self._check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"{fresh} of {len(NODES)} agents report; {self._processes.log('extender')}")
            time.sleep(0.1)

    def learn(self) -> None:
        """One pod of the type on every node, as in kubeRL's demo, and nothing placed yet."""
        _title(
            f"1. A service of type {TYPE} runs on every node. It crashes every 10 s on {WORST}, every 60 s on {BAD}.\n"
            f"   Compressed: crashes come {COMPRESSED:g} times as fast, and evidence loses half its weight in "
            f"{HALF_LIFE_SECONDS:g} s instead of an hour, {HOUR_SECONDS / HALF_LIFE_SECONDS:,.0f} times as fast."
        )
        for node in NODES:
            self._put(*self._kubelets.place(f"standing-{node}", node, self._now()))
        until = self._now() + LEARN_SECONDS
        while self._now() < until:
            self._turn(place=False)
        self._draw(last=True)

    def later(self) -> None:
        _title(f"2. {LATER_PODS} more pods of the type are scheduled, while the faults last.")
        while self._placed.total() < LATER_PODS:
            self._turn(place=True)
        self._draw(last=True)
        elsewhere = rewards_screen.share(self._placed, GOOD)
        print(f"{elsewhere:.0%} of the later pods went to the other nodes (wanted: {ELSEWHERE_TARGET:.0%}).")
        if elsewhere < ELSEWHERE_TARGET:
            raise DemoFailed(f"only {elsewhere:.0%} of the later pods went to the other nodes")

    def repair(self) -> None:
        """Fair is what every node gets that is not at fault."""
        fair = 1 / (len(NODES) - 1)
        _title(f"3. {WORST} is repaired, {BAD} is not. Fair for {WORST} is {fair:.0%} of all pods.")
        del self._kubelets.faults[WORST]
        repaired, before = self._now(), self._placed.total()
        while self._lately.count(WORST) < FAIR_TARGET * fair * LATELY:
            self._turn(place=True)
            if self._now() - repaired > BACK_WITHIN_SECONDS:
                raise DemoFailed(f"{WORST} did not get its share back within {BACK_WITHIN_SECONDS:g} s")
        self._draw(last=True)
        took, pods = self._now() - repaired, self._placed.total() - before
        lately = self._lately.count(WORST) / LATELY
        print(f"{WORST} got {lately:.0%} of the last {LATELY} pods {took:.0f} s and {pods} pods after its repair.")
        print(f"That is {took / HALF_LIFE_SECONDS:.0f} half-lives, of an hour each by default.")

    def _turn(self, place: bool) -> None:
        self._check()
        for path, body in self._kubelets.step(self._now()):
            self._put(path, body)
        node = self._asked()
        if place:
            self._placed[node] += 1
            self._lately.append(node)
            self._put(*self._kubelets.place(f"later-{self._number}", node, self._now(), RUNS_SECONDS))
        self._draw()
        time.sleep(PLACE_EVERY_SECONDS)

    def _asked(self) -> str:
        """Where kube-scheduler would bind the next pod: the best score, then fewest pods, then by chance."""
        self._number += 1
        body = request.captured(NODES, {"podtype": TYPE})
        body["Pod"]["metadata"] |= {"name": f"later-{self._number}", "uid": f"uid-{self._number}-{self._rng.random()}"}
        request.schedule(self._extender, body)
        page = request.get(f"{self._extender}/explain?pod=default/later-{self._number}")
        self._explained = {each["node"]: each for each in json.loads(page)["explanation"]["nodes"]}
        rank = {node: (-self._score(node), self._kubelets.running(node), self._rng.random()) for node in NODES}
        return min(NODES, key=rank.__getitem__)

    def _score(self, node: str) -> int:
        return int(self._explained.get(node, {}).get("score") or 0)

    def _row(self, node: str) -> Row:
        measured = self._explained.get(node, {}).get("measured", {})
        return Row(
            node,
            rewards_screen.fault(self._kubelets.faults.get(node), FAULTS.get(node), COMPRESSED),
            self._kubelets.crashes.get(node, 0),
            measured.get("reward_ratio"),
            measured.get("reward_blame_ratio"),
            self._score(node),
            self._placed[node],
            self._lately.count(node) / max(1, len(self._lately)),
        )

    def _draw(self, last: bool = False) -> None:
        """A terminal shows it move, twice a second; a file gets each part's last state."""
        live = sys.stdout.isatty()
        if not last and (not live or self._now() - self._drawn_at < 0.5):
            return
        text = rewards_screen.table([self._row(node) for node in NODES])
        up = f"\x1b[{self._lines}A\x1b[J" if self._lines and live else ""
        print(f"{up}{text}", flush=True)
        self._drawn_at, self._lines = self._now(), 0 if last else text.count("\n") + 1

    def _fresh(self) -> int:
        try:
            nodes = json.loads(request.get(f"{self._extender}/state"))["nodes"].values()
        except URLError:
            return 0
        return sum(node["freshness"] == "fresh" for node in nodes)

    def _check(self) -> None:
        if ended := self._processes.ended():
            raise DemoFailed(ended)

    def _put(self, path: str, body: dict[str, Any] | None) -> None:
        if body is None:
            self._api.delete(path)
        else:
            self._api.put(path, body)

    def _now(self) -> float:
        return time.monotonic() - self._began


def _title(text: str) -> None:
    print(f"\n{text}\n", flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
