"""The cluster: which nodes are bad when, and what becomes of a pod there."""

from random import Random

from msgspec import Struct


class SimulationSettings(Struct, frozen=True):
    """placements: in each of the two phases, before and after the faults move. Then half of the bad nodes are
    repaired: after `settle` placements their share of the next `window` is taken. Then a node joins: the same after
    `join_settle`.

    outcome_seconds: from a pod's start until it fails, or is known not to. lifetime_seconds: of a pod, failed or not.
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
    """nodes: names, in order; bad: those that fail pods now."""

    def __init__(self, settings: SimulationSettings, seed: int) -> None:
        self.settings = settings
        self.nodes = [f"node-{n:02d}" for n in range(settings.nodes)]
        self._luck, self._choice = Random(f"luck {seed}"), Random(f"choice {seed}")
        order = Random(f"order {seed}").sample(self.nodes, settings.nodes)
        self.bad, self._next = set(order[: settings.bad]), set(order[settings.bad : 2 * settings.bad])
        self.running = dict.fromkeys(self.nodes, 0)
        self.repaired: set[str] = set()

    def move_faults(self) -> None:
        """The faults go to other nodes."""
        self.bad, self._next = self._next, self.bad

    def repair_nodes(self) -> None:
        """Half of the bad nodes, at least one, are good from now on."""
        self.repaired = set(sorted(self.bad)[: max(1, len(self.bad) // 2)])
        self.bad -= self.repaired

    def add_node(self) -> str:
        name = f"node-{len(self.nodes):02d}"
        self.nodes.append(name)
        self.running[name] = 0
        return name

    def draw_failures(self) -> tuple[bool, bool]:
        """Whether the next pod fails on a bad node, and elsewhere: the same for every contestant."""
        luck, settings = self._luck.random(), self.settings
        return luck < settings.failures_on_bad_ratio, luck < settings.failures_elsewhere_ratio

    def choose_node(self, scores: dict[str, float]) -> str:
        """As kube-scheduler: the best score; among equals the fewest pods; among those any."""
        best = max(scores.values())
        equal = [node for node in self.nodes if scores[node] == best]
        fewest = min(self.running[node] for node in equal)
        return self._choice.choice([node for node in equal if self.running[node] == fewest])

    @property
    def fair_share(self) -> float:
        """Of one sound node."""
        return 1.0 / (len(self.nodes) - len(self.bad))
