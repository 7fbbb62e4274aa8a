"""`leadsman demo rewards`: kubeRL's experiment on this machine.

Pods crash every 10 s on one node, every 60 s on another, never on the rest; later pods of the type go elsewhere; then
the worst node is repaired and gets its share back. Agents, etcd and extender are real processes; the API server, the
kubelets and kube-scheduler are simulated. Time is compressed, and the screen says by how much.
"""

import logging
import sys
import textwrap
import time
from collections import Counter, deque

from leadsman.cli.demo import scheduler_request
from leadsman.cli.demo.house import DemoFailed, House, PageAddress, say
from leadsman.cli.demo.simulated_cluster import SimulatedCluster
from leadsman.runtime.text_table import align_columns, unescaped
from leadsman.testbed.fake_api_server import ApiServerThread, FakeApiServer

NODES = tuple(f"node-{number}" for number in range(1, 7))
WORST_NODE, BAD_NODE = NODES[:2]
GOOD_NODES = NODES[2:]
POD_TYPE = "D"
"""The type's name in kubeRL's experiment."""

HEADER = ["NODE", "FAULT", "CRASHES", "REWARD", "BLAME", "LATER PODS", "OF THE LAST 40"]

TIME_COMPRESSION = 20.0
"""Crashes every 10 and 60 s come every 0.5 and 3 s."""
CRASH_PERIODS_SECONDS = {WORST_NODE: 10.0, BAD_NODE: 60.0}
HALF_LIFE_SECONDS, HOUR_SECONDS = 3.6, 3600.0

LEARN_SECONDS = 6.0
LATER_PODS = 100
PLACEMENT_INTERVAL_SECONDS, POD_LIFETIME_SECONDS = 0.1, 1.5
RECENT_PODS = 40
ELSEWHERE_TARGET, FAIR_SHARE_TARGET = 0.95, 0.9
RECOVER_WITHIN_SECONDS, READY_WITHIN_SECONDS = 180.0, 60.0


def run(page: PageAddress) -> None:
    """Runs the demo. DemoFailed, or what testbed raises when this machine cannot do it."""
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    with ApiServerThread(FakeApiServer()) as api, House(page, NODES, None) as demo:
        often = ("--probe-interval-seconds=1", "--window-seconds=10", "--health-summary-seconds=1")
        demo.start_agents("--kube-api", api.url, f"--half-life-seconds={HALF_LIFE_SECONDS}", *often)
        cluster = SimulatedCluster(api, dict.fromkeys(NODES, 64))
        cluster.extender = demo.start_extender()
        say(f"started    an etcd, {len(NODES)} agents, an extender; a fake API server")
        experiment = RewardsExperiment(cluster, demo)
        experiment.learn()
        experiment.place_later_pods()
        experiment.repair()
        demo.stay("rewards", "nodes", f"explain later-{LATER_PODS}", step=experiment.tick)


class RewardsExperiment:
    """Runs the three parts of the experiment, each with its screen."""

    def __init__(self, cluster: SimulatedCluster, demo: House) -> None:
        self._cluster, self._house = cluster, demo
        self._placed = Counter[str]()
        self._lately: deque[str] = deque(maxlen=RECENT_PODS)
        self._running: deque[tuple[float, str]] = deque()
        self._drawn_at, self._lines = float("-inf"), 0

    def learn(self) -> None:
        """Runs one pod of the type on every node, as in kubeRL's demo, and places none yet."""
        self._house.wait_until(self._all_fresh, "every agent reports", READY_WITHIN_SECONDS)
        _title(
            f"1. A service of type {POD_TYPE} runs on every node. It crashes every 10 s on {WORST_NODE}, "
            f"every 60 s on {BAD_NODE}. "
            f"Compressed: crashes come {TIME_COMPRESSION:g} times as fast, and evidence loses half its weight in "
            f"{HALF_LIFE_SECONDS:g} s instead of an hour, {HOUR_SECONDS / HALF_LIFE_SECONDS:,.0f} times as fast."
        )
        for node in NODES:
            self._cluster.run(self._cluster.create(f"service-{node}", {"podtype": POD_TYPE}), node)
        self._cluster.faults = {node: period / TIME_COMPRESSION for node, period in CRASH_PERIODS_SECONDS.items()}
        until = time.monotonic() + LEARN_SECONDS
        while time.monotonic() < until:
            self.tick(place=False)
        self._draw(last=True)

    def place_later_pods(self) -> None:
        """Places pods while the faults last. Raises DemoFailed when too many go to the nodes at fault."""
        _title(f"2. {LATER_PODS} more pods of the type are scheduled, while the faults last.")
        while self._placed.total() < LATER_PODS:
            self.tick()
        self._draw(last=True)
        elsewhere = sum(self._placed[node] for node in GOOD_NODES) / self._placed.total()
        print(f"{elsewhere:.0%} of the later pods went to the other nodes (target: {ELSEWHERE_TARGET:.0%}).")
        if elsewhere < ELSEWHERE_TARGET:
            raise DemoFailed(f"only {elsewhere:.0%} of the later pods went to the other nodes")

    def repair(self) -> None:
        """Repairs the worst node and waits for its fair share: what every node without a fault gets."""
        fair = 1 / (len(NODES) - 1)
        _title(f"3. {WORST_NODE} is repaired, {BAD_NODE} is not. Fair for {WORST_NODE} is {fair:.0%} of all pods.")
        del self._cluster.faults[WORST_NODE]
        repaired, before = time.monotonic(), self._placed.total()
        while self._lately.count(WORST_NODE) < FAIR_SHARE_TARGET * fair * RECENT_PODS:
            self.tick()
            if time.monotonic() - repaired > RECOVER_WITHIN_SECONDS:
                raise DemoFailed(f"{WORST_NODE} did not get its share back within {RECOVER_WITHIN_SECONDS:g} s")
        self._draw(last=True)
        took, pods = time.monotonic() - repaired, self._placed.total() - before
        lately = self._lately.count(WORST_NODE) / RECENT_PODS
        print(
            f"{WORST_NODE} got {lately:.0%} of the last {RECENT_PODS} pods, "
            f"{took:.0f} s and {pods} pods after its repair."
        )
        print(f"That is {took / HALF_LIFE_SECONDS:.0f} half-lives, of an hour each by default.")

    def tick(self, place: bool = True) -> None:
        """Makes one step of the cluster. place: another pod waits for a node, and the oldest ones end."""
        self._house.check()
        now = time.monotonic()
        while self._running and self._running[0][0] < now:
            self._cluster.delete(self._running.popleft()[1])
        name = f"later-{self._placed.total() + 1}"
        if place:
            self._cluster.create(name, {"podtype": POD_TYPE})
        self._cluster.step()
        if place:
            (node,) = (pod["spec"]["nodeName"] for pod in self._cluster.pods() if pod["metadata"]["name"] == name)
            self._placed[node] += 1
            self._lately.append(node)
            self._running.append((now + POD_LIFETIME_SECONDS, name))
        self._draw()
        time.sleep(PLACEMENT_INTERVAL_SECONDS)

    def _draw(self, last: bool = False) -> None:
        """Draws the table: on a terminal twice a second, into a file the last state of each part."""
        live = sys.stdout.isatty()
        if not last and (not live or time.monotonic() - self._drawn_at < 0.5):
            return
        text = "\n".join(align_columns([HEADER, *self._rows()]))
        up = f"\x1b[{self._lines}A\x1b[J" if self._lines and live else ""
        print(f"{up}{text}", file=unescaped(sys.stdout), flush=True)
        self._drawn_at, self._lines = time.monotonic(), 0 if last else text.count("\n") + 1

    def _rows(self) -> list[list[str]]:
        rewards = scheduler_request.get_json(f"{self._house.api}/api/v1/rewards?type={POD_TYPE}")
        cells = dict(zip(rewards["nodes"]["items"], rewards["cells"][0], strict=True)) if rewards["cells"] else {}
        rows = []
        for node in NODES:
            known = cells.get(node) or {}
            measured = [known.get(name) for name in ("reward_ratio", "blame_ratio")]
            rows.append(
                [
                    node,
                    self._fault(node),
                    str(self._cluster.crashes[node]),
                    *("-" if value is None else f"{value:.2f}" for value in measured),
                    str(self._placed[node]),
                    f"{self._lately.count(node) / max(1, len(self._lately)):.0%}",
                ]
            )
        return rows

    def _fault(self, node: str) -> str:
        """Returns the node's fault in the experiment's own seconds, before compression."""
        if node in self._cluster.faults:
            return f"crash every {CRASH_PERIODS_SECONDS[node]:g} s"
        return "repaired" if node in CRASH_PERIODS_SECONDS else "none"

    def _all_fresh(self) -> bool:
        nodes = scheduler_request.reporting_nodes(self._house.api)
        return [node["status"] for node in nodes] == ["fresh"] * len(NODES)


def _title(text: str) -> None:
    print("", textwrap.fill(text, 100), "", sep="\n", flush=True)
