"""The simulated cluster: which nodes are bad at which time, and which pods fail."""

from random import Random

from msgspec import Struct


class SimulationSettings(Struct, frozen=True):
    """What is simulated. After two phases, half of the bad nodes are repaired; then a node joins.

    nodes: number of nodes.
    bad: number of nodes that fail pods.
    failures_on_bad_ratio: share of pods that fail on a bad node, 0..1.
    failures_elsewhere_ratio: share of pods that fail on any other node, 0..1.
    placements: pods placed in each of the two phases, before and after the faults move.
    settle: pods placed between the repair and the window in which shares are taken.
    window: pods placed in that window.
    join_settle: pods placed between the joining and that window.
    interval_seconds: time between two placements.
    outcome_seconds: time from a pod's start until it fails, or is known not to.
    lifetime_seconds: time that a pod exists, failed or not.
    half_life_seconds: time in which evidence loses half its weight.
    """

    nodes: int = 20
    bad: int = 4
    failures_on_bad_ratio: float = 0.8
    failures_elsewhere_ratio: float = 0.02
    placements: int = 1_000
    settle: int = 1_500
    window: int = 3_000
    join_settle: int = 100
    interval_seconds: float = 6.0
    outcome_seconds: float = 10.0
    lifetime_seconds: float = 600.0
    half_life_seconds: float = 3_600.0

    def __post_init__(self) -> None:
        if not 1 <= self.bad <= self.nodes // 2:
            raise ValueError(
                f"bad {self.bad}: want 1 to half of nodes ({self.nodes}), as the faults move to other nodes"
            )


class SimulatedCluster:
    """The nodes and their pods.

    nodes: names, in order.
    bad: those that fail pods now.
    running: node → number of pods.
    repaired: nodes that were bad before.
    """

    def __init__(self, settings: SimulationSettings, seed: int) -> None:
        self.settings = settings
        self.nodes = [f"node-{n:02d}" for n in range(settings.nodes)]
        self._outcomes, self._choice = Random(f"luck {seed}"), Random(f"choice {seed}")
        order = Random(f"order {seed}").sample(self.nodes, settings.nodes)
        self.bad, self._next = set(order[: settings.bad]), set(order[settings.bad : 2 * settings.bad])
        self.running = dict.fromkeys(self.nodes, 0)
        self.repaired: set[str] = set()

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
        self.nodes.append(name)
        self.running[name] = 0
        return name

    def draw_failures(self) -> tuple[bool, bool]:
        """Whether the next pod fails on a bad node, and whether elsewhere: the same for every strategy."""
        drawn, settings = self._outcomes.random(), self.settings
        return drawn < settings.failures_on_bad_ratio, drawn < settings.failures_elsewhere_ratio

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
