"""What a plugin of another package is written against. Stable: a change that breaks a plugin raises API_VERSION.

A plugin is a class, made without arguments, that an entry point names in the group `leadsman.scores` or
`leadsman.filters`. It runs in a process of its own: see docs/plugins.md.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

API_VERSION = 1

SCORES_GROUP, FILTERS_GROUP = "leadsman.scores", "leadsman.filters"
REWARDS_GROUP = "leadsman.rewards"

PASS, REFUSE = "pass", "refuse"
"""What becomes of the nodes when a filter fails."""


class Pod(Struct, frozen=True, gc=False):
    """The pod to place.

    requests: resource → amount, `cpu` in cores, memory in bytes; None: not known.
    """

    namespace: str
    name: str
    labels: Mapping[str, str] = {}
    priority: int = 0
    requests: Mapping[str, float] | None = None


class Node(Struct, frozen=True, gc=False):
    """A candidate node.

    fresh: whether its agent reports now. hardware: metric → value, empty while it is not fresh.
    zone, rack: as its agent was told; "": not known. labels: None: no rule reads labels, so they are not followed.
    """

    name: str
    fresh: bool = False
    zone: str = ""
    rack: str = ""
    hardware: Mapping[str, float] = {}
    labels: Mapping[str, str] | None = None


class Score(Protocol):
    """Says how good each node is for the pod."""

    api_version: int

    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        """Node → 0 (worst) .. 1 (best). A node that is absent is unknown; none at all: it does not apply to the pod."""


class Filter(Protocol):
    """Says which nodes may not take the pod.

    on_failure: PASS or REFUSE: what becomes of all nodes while the filter is late, crashed or off.
    """

    api_version: int
    on_failure: str

    def refuse(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, str]:
        """Node → why it is refused, without a value of the node in it; nodes that pass are absent."""
