"""The simulated cluster: which nodes are bad at which time, and which pods fail or run slowly.

Strategies are compared by the pods that fail under them: faults appear, move and are repaired, and a node joins. Every
strategy meets the same pods, faults and random numbers.
"""

from enum import StrEnum
from math import exp, sqrt
from random import Random

from msgspec import Struct

_DRIFT_MEDIAN_RATIO, _DRIFT_SIGMA, _DRIFT_PLACEMENTS = 0.02, 1.5, 1_000.0
"""Of a node's share of failures: its median, the standard deviation of its logarithm, and how long it lasts."""

_RUN_SECONDS, _RUN_SIGMA = 60.0, 0.2
"""Median run time of a pod, and the standard deviation of its logarithm."""


class Fault(StrEnum):
    """What is wrong with the bad nodes."""

    NODES = "nodes"
    """Single nodes fail pods."""
    RACKS = "racks"
    """All nodes of a rack fail pods."""
    SLOW = "slow"
    """Pods run on single nodes, but slowly."""
    DRIFT = "drift"
    """Each node's share of failures wanders, between a two-hundredth and four fifths."""


class SimulationSettings(Struct, frozen=True):
    """What is simulated. After two phases, half of the bad nodes are repaired; then a node joins.

    bad: number of nodes that fail pods.
    failures_on_bad_ratio: share of pods that fail on a bad node, 0..1.
    failures_elsewhere_ratio: share of pods that fail on any other node, 0..1.
    slow_factor: run time on a slow node / elsewhere.
    types: types of pods, each as frequent as the others.
    bad_types: how many of them fail on every node.
    failures_of_bad_types_ratio: share of their pods that fail, 0..1.
    placements: pods placed in each of the two phases, before and after the faults move.
    settle: pods placed between the repair and the `window` in which shares are taken.
    join_settle: pods placed between the joining and that window.
    outcome_seconds: time from a pod's start until it fails, or is known not to.
    lifetime_seconds: time that a pod exists, failed or not.
    """

    nodes: int = 20
    bad: int = 4
    failures_on_bad_ratio: float = 0.8
    failures_elsewhere_ratio: float = 0.02
    fault: Fault = Fault.NODES
    rack_nodes: int = 4
    slow_factor: float = 3.0
    types: int = 1
    bad_types: int = 0
    failures_of_bad_types_ratio: float = 0.5
    placements: int = 1_000
    settle: int = 1_500
    window: int = 3_000
    join_settle: int = 100
    interval_seconds: float = 6.0
    outcome_seconds: float = 10.0
    lifetime_seconds: float = 600.0
    half_life_seconds: float = 3_600.0


class SimulatedPod(Struct, frozen=True):
    """One pod, the same for every strategy. luck: 0..1, it fails where the share that fails is above this.

    run_seconds: its run time on a node that is not slow.
    """

    type: str
    luck: float
    run_seconds: float


class Outcome(Struct, frozen=True):
    """What became of a pod. run_seconds: how long it ran, of use when it did not fail."""

    pod_type: str
    node: str
    failed: bool
    run_seconds: float


class SimulatedCluster:
    """The nodes and their pods.

    nodes: names, in order.
    racks: node → its rack.
    bad: nodes that fail pods, or run them slowly, now.
    running: node → number of pods.
    repaired: nodes that were bad before.
    """

    def __init__(self, settings: SimulationSettings, seed: int) -> None:
        self.settings = settings
        self.nodes = [f"node-{n:02d}" for n in range(settings.nodes)]
        self.racks = {node: f"rack-{n // settings.rack_nodes}" for n, node in enumerate(self.nodes)}
        self._outcomes, self._choice = Random(f"luck {seed}"), Random(f"choice {seed}")
        self._pods = Random(f"pods {seed}")
        order = self._fault_order(Random(f"order {seed}"))
        self.bad, self._next = set(order[: settings.bad]), set(order[settings.bad : 2 * settings.bad])
        self.running = dict.fromkeys(self.nodes, 0)
        self.repaired: set[str] = set()
        self._drift = Random(f"drift {seed}")
        self._logarithms = {node: self._drift.gauss(0.0, _DRIFT_SIGMA) for node in self.nodes}

    def _fault_order(self, rng: Random) -> list[str]:
        """The nodes in the order in which faults meet them."""
        if self.settings.fault is not Fault.RACKS:
            return rng.sample(self.nodes, self.settings.nodes)
        racks = sorted(set(self.racks.values()))
        return [node for rack in rng.sample(racks, len(racks)) for node in self.nodes if self.racks[node] == rack]

    def move_faults(self) -> None:
        """Moves the faults to other nodes."""
        self.bad, self._next = self._next, self.bad

    def repair_nodes(self) -> None:
        """Repairs half of the bad nodes, at least one."""
        self.repaired = set(sorted(self.bad)[: max(1, len(self.bad) // 2)])
        self.bad -= self.repaired

    def add_node(self) -> str:
        """Adds a good node. Its name."""
        name = f"node-{len(self.nodes):02d}"
        self.racks[name] = f"rack-{len(self.nodes) // self.settings.rack_nodes}"
        self.nodes.append(name)
        self.running[name] = 0
        return name

    def draw_pod(self) -> SimulatedPod:
        """The next pod."""
        if self.settings.fault is Fault.DRIFT:
            self._wander()
        kind, pace = self._pods.randrange(self.settings.types), self._pods.lognormvariate(0.0, _RUN_SIGMA)
        return SimulatedPod(f"type-{kind}", self._outcomes.random(), _RUN_SECONDS * pace)

    def _wander(self) -> None:
        """Moves each node's share of failures on by one placement."""
        kept = exp(-1.0 / _DRIFT_PLACEMENTS)
        noise = _DRIFT_SIGMA * sqrt(1.0 - kept * kept)
        self._logarithms = {
            node: kept * self._logarithms.get(node, 0.0) + self._drift.gauss(0.0, noise) for node in self.nodes
        }

    def fails(self, pod: SimulatedPod, node: str) -> bool:
        """Whether the pod fails on this node."""
        settings = self.settings
        ratio = settings.failures_elsewhere_ratio
        if settings.fault is Fault.DRIFT:
            ratio = min(0.8, max(0.005, _DRIFT_MEDIAN_RATIO * exp(self._logarithms[node])))
        elif node in self.bad and settings.fault is not Fault.SLOW:
            ratio = max(ratio, settings.failures_on_bad_ratio)
        if int(pod.type.removeprefix("type-")) < settings.bad_types:
            ratio = max(ratio, settings.failures_of_bad_types_ratio)
        return pod.luck < ratio

    def is_slow(self, node: str) -> bool:
        """Whether pods run slowly on this node."""
        return self.settings.fault is Fault.SLOW and node in self.bad

    def choose_node(self, scores: dict[str, float]) -> str:
        """The node that kube-scheduler would choose: the best score, then the fewest pods, then at random."""
        best = max(scores.values())
        equal = [node for node in self.nodes if scores[node] == best]
        fewest = min(self.running[node] for node in equal)
        return self._choice.choice([node for node in equal if self.running[node] == fewest])

    @property
    def fair_share(self) -> float:
        """Share of one node without a fault, 0..1."""
        return 1.0 / (len(self.nodes) - len(self.bad))
