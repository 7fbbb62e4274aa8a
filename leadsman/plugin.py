"""Defines what a plugin of another package is written against. Stable: a change that breaks a plugin raises
API_VERSION.

A plugin is a class, made without arguments, that an entry point names in a group below. A score or filter runs in a
process of the extender's, a metric or reward in a thread of the agent's: see docs/plugins.md. What the agent itself
measures is made of the same MetricFamily, Sample and HostRoots.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

API_VERSION = 1

SCORES_GROUP, FILTERS_GROUP = "leadsman.scores", "leadsman.filters"
METRICS_GROUP, REWARDS_GROUP = "leadsman.metrics", "leadsman.rewards"

PASS, REFUSE = "pass", "refuse"
"""Says what becomes of the nodes when a filter fails."""


class Pod(Struct, frozen=True, gc=False):
    """The pod to place, as a plugin sees it.

    requests: resource → amount, `cpu` in cores, memory in bytes; None: not known.
    """

    namespace: str
    name: str
    labels: Mapping[str, str] = {}
    priority: int = 0
    requests: Mapping[str, float] | None = None


class Node(Struct, frozen=True, gc=False):
    """A candidate node, as a plugin sees it.

    fresh: whether its agent reports now. hardware: metric → value, empty while it is not fresh.
    zone, rack: as its agent was told; "": not known. labels: None: they are not listed yet.
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
        """Maps nodes to 0 (worst) .. 1 (best). An absent node is unknown; none at all: the score does not apply to the
        pod."""


class Filter(Protocol):
    """Says which nodes may not take the pod.

    on_failure: PASS or REFUSE: what becomes of all nodes while the filter is late, crashed or off.
    """

    api_version: int
    on_failure: str

    def refuse(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, str]:
        """Maps each refused node to why, without a value of the node in it; nodes that pass are absent."""


class HostRoots(Struct, frozen=True):
    """Says where the host's /proc, /sys and root filesystem are mounted.

    rootfs: prefix of the host's mount points.
    own_network: the reader has a network namespace of its own, as a pod has without hostNetwork. What the kernel
        answers for the reader's namespace is then not the node's.
    """

    proc: str = "/proc"
    sys: str = "/sys"
    rootfs: str = "/"
    own_network: bool = False


class MetricFamily(Struct, frozen=True):
    """A metric; calling it makes a Sample.

    name: without a prefix, ending in the unit or `_total`.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ()

    def __call__(self, value: float, *labels: str) -> "Sample":
        return Sample(self, value, labels)


class Sample(Struct, frozen=True):
    """One value of a metric. labels: values of the family's labels, in its order."""

    family: MetricFamily
    value: float
    labels: tuple[str, ...] = ()


class SensorFault(Struct, frozen=True):
    """Reports a sensor that failed beside others that did not. message: path and error."""

    message: str


class NoData(Exception):
    """The node has no such hardware, driver or kernel feature; this is an answer, not a fault."""


def gauge(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, "gauge", text, labels)


def counter(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, "counter", text, labels)


class Metrics(Protocol):
    """Measures something of the node."""

    api_version: int

    def collect(self, roots: HostRoots) -> Iterable[Sample | SensorFault]:
        """Yields samples; called every few seconds. Raises NoData: there is nothing of the kind on this node."""


class RunningPod(Struct, frozen=True, gc=False):
    """A healthy pod of the agent's node.

    labels, annotations: all of them, up to 16 and 64 KiB. address: its own; "": it has none.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    address: str = ""


class Reward(Protocol):
    """Says how well a pod runs on this node."""

    api_version: int

    def costs(self, pod: RunningPod) -> Mapping[str, float]:
        """Maps each quality to its cost, above 0, lower is better; empty for a pod that it does not observe."""
