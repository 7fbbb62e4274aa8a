"""Defines the terms of a decision: the pod, the candidates, what a plugin says of them, and what comes out.

The inputs of a decision besides the pod are in `inputs`, as they come from every subject.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Self

from msgspec import Struct
from msgspec.structs import force_setattr

from leadsman.cluster.devices.demand import NO_DEMAND, DeviceDemand
from leadsman.cluster.model import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX
from leadsman.rewards import pod_types
from leadsman.runtime.text_table import one_line


class PodInfo(Struct, frozen=True):
    """Says what decisions use of a pod.

    workload: what it belongs to, as `deployment/web`; "": unknown.
    excess: which labels and annotations that decide are missing here, because there are too many; "" when none is. Such
    a pod is refused as one whose bounds cannot be read.
    priority: of its PriorityClass.
    owner_uid: its controller's; "": it has none.
    requests: what it requests as kube-scheduler counts it; None: not known.
    devices: what it asks of devices. bad_demand: why that cannot be read; "" when it can.
    """

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    workload: str = ""
    excess: str = ""
    priority: int = 0
    owner_uid: str = ""
    requests: Resources | None = None
    devices: DeviceDemand = NO_DEMAND
    bad_demand: str = ""

    @classmethod
    def of(cls, pod: ClusterPod) -> Self:
        """Returns a pod of the cluster as kube-scheduler's request would show it."""
        return cls(
            pod.namespace,
            pod.name,
            pod.uid,
            pod.labels,
            pod.annotations,
            pod.workload,
            pod.excess,
            pod.priority,
            pod.owner_uid,
            pod.requests,
            NO_DEMAND if pod.devices is None else pod.devices,
            pod.bad_demand,
        )

    @property
    def has_delay_bounds(self) -> bool:
        """Tells whether the pod asks for a bound, well-formed or not, or may do so in the part that was not read."""
        if self.excess:
            return True
        lines = self.annotations.get(DELAY_ANNOTATION, "").splitlines()
        return any(line.partition("#")[0].strip() for line in lines) or any(
            each.startswith(DELAY_LABEL_PREFIX) for each in self.labels
        )


class CandidateNodes(tuple[str, ...]):
    """Node names, each once, in the order given."""

    __slots__ = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """Returns the candidates of `names`; a CandidateNodes is returned itself."""
        return names if isinstance(names, cls) else cls(dict.fromkeys(names))


class Refusal(Struct, frozen=True, gc=False):
    """Says why a node may not take the pod, and which plugin says so.

    reason: the same text for every node with the same cause, without a value of the node's, because kube-scheduler
    counts equal reasons ("3 delay to edge-1 over 25 ms"). So nodes share one Refusal, and the values are computed when
    they are to be explained (FilterPlugin.evidence).
    """

    plugin: str
    reason: str

    def __post_init__(self) -> None:
        if not self.reason.isprintable():
            force_setattr(self, "reason", one_line(self.reason))


class PluginScore(Struct, frozen=True):
    """The result of one score plugin.

    values: node → 0 (worst) .. 1 (best).
    unknown: node → why it has no value.
    neutral: why the plugin does not count; "" when it does.
    """

    plugin: str
    weight: float
    values: Mapping[str, float]
    unknown: Mapping[str, str] = {}
    neutral: str = ""


class Decision(Struct, frozen=True):
    """Says what was decided on a pod. `kept`, in the order given, and `refused` together are the candidates, each once.

    scores: 0..10 for every kept node.
    neutral: why the scores are all equal; "" when they are not neutral.
    """

    pod: PodInfo
    kept: tuple[str, ...]
    refused: Mapping[str, Refusal]
    plugin_scores: tuple[PluginScore, ...]
    scores: Mapping[str, int]
    neutral: str = ""


class DelayEvidence(Struct, frozen=True, gc=False):
    """Says how one node stands to one bound, by the pair that decides on it.

    to: the node or workload of the bound. reference: the node that counts, where `pod` of the workload runs. rtt_ms:
    None when it is not measured and not estimated; `why` says why it is not measured. low_ms, high_ms: least and 95th
    percentile of the probe window, or the estimate's 90 % interval. source: agents, another source's name, group or
    coordinates; "measured" for what was measured when the estimate was made; "before-failure" for what was measured
    last to a reference that is dead now. reporter: which of the two measured it; "" where nobody did or it is unknown.
    age_seconds: None: it does not age. doubt: what only one of the two reports, when it does not count as reported.
    """

    to: str
    reference: str
    bound_ms: float
    pod: str = ""
    rtt_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    source: str = ""
    estimated: bool = False
    age_seconds: float | None = None
    why: str = ""
    doubt: str = ""
    reporter: str = ""


class Evidence(Struct, frozen=True):
    """Says what a plugin looked at, for explanations.

    measured: quantity, with its unit in the name → node → value; nodes without a value are absent.
    pod: what was read of the pod → its value as text.
    notes: node → how it stands, if it passes. distances: node → how it stands to each delay bound.
    """

    measured: Mapping[str, Mapping[str, float]] = {}
    notes: Mapping[str, str] = {}
    distances: Mapping[str, tuple[DelayEvidence, ...]] = {}
    pod: Mapping[str, str] = {}


# The type that a pod's rewards and run times are kept under.


def pod_type_of(pod: PodInfo) -> str:
    """Returns the type that the pod's rewards are kept under."""
    kind, _, owner = pod.workload.partition("/")
    return pod_types.pod_type(pod.labels, owner or pod.name, "Job" if kind == "job" else "")


def draw(pod: PodInfo, what: str) -> float:
    """Returns a number 0..1, always the same for this pod and what is drawn for."""
    seed = f"{pod.uid or pod.namespace + '/' + pod.name} {what}"
    return int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) / 2**64
