"""The terms of a decision: the pod, the candidates, what a plugin says of them, and what comes out.

What a decision is made on besides the pod stands in `inputs`, as it comes from every subject.
"""

from collections.abc import Iterable, Mapping
from typing import Self

from msgspec import Struct


class PodInfo(Struct, frozen=True):
    """What decisions use of a pod. workload: what it belongs to, as `deployment/web` (places.workload); "": unknown."""

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    workload: str = ""


class CandidateNodes(tuple[str, ...]):
    """Node names, each once, in the order asked."""

    __slots__ = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """What already is one is returned itself."""
        return names if isinstance(names, cls) else cls(dict.fromkeys(names))


class Refusal(Struct, frozen=True, gc=False):
    """Why a node may not take the pod.

    reason: the same words for every node with the same cause and no value of the node's in them, because
    kube-scheduler counts equal reasons ("3 delay to edge-1 over 25 ms"). So nodes share one Refusal, and the
    values are asked for when somebody wants them explained (Filter.evidence).
    """

    plugin: str
    reason: str


class PluginScore(Struct, frozen=True):
    """What one score said. values: node → 0 (worst) .. 1 (best). unknown: node → why there is no value.

    neutral: why the scores were made without this part; "" when it counted.
    """

    plugin: str
    weight: float
    values: Mapping[str, float]
    unknown: Mapping[str, str] = {}
    neutral: str = ""


class Decision(Struct, frozen=True):
    """kept, in the order asked, and refused together are the nodes asked about, each once.

    scores: 0..10 for every kept node. neutral: why they say nothing (all equal); "" when they do.
    """

    pod: PodInfo
    kept: tuple[str, ...]
    refused: Mapping[str, Refusal]
    plugin_scores: tuple[PluginScore, ...]
    scores: Mapping[str, int]
    neutral: str = ""


class DelayEvidence(Struct, frozen=True, gc=False):
    """How one node stands to one bound, by the pair that decides on it.

    to: the node or workload of the bound. reference: the node that counts, where `pod` of the workload runs. rtt_ms:
    None when it is not measured and not estimated; `why` says why it is not measured. low_ms, high_ms: least and 95th
    percentile of the probe window, or the estimate's 90 % interval. source: agents, another source's name, group or
    coordinates; "measured" for what was measured when the estimate was made. direction: forward: by the reference;
    backward: by the node; "" of an estimate. age_seconds: None: it does not age.
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
    direction: str = ""
    age_seconds: float | None = None
    why: str = ""


class Evidence(Struct, frozen=True):
    """What a plugin looked at, for explanations.

    measured: quantity, with its unit in the name → node → value; nodes without a value are absent.
    notes: node → how it stands, if it passes. distances: node → how it stands to each delay bound.
    """

    measured: Mapping[str, Mapping[str, float]] = {}
    notes: Mapping[str, str] = {}
    distances: Mapping[str, tuple[DelayEvidence, ...]] = {}
