"""A request as it was decided: what is recorded, and what a recording gives back."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.decision.decide import FilterResult
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.names import (
    ACCELERATOR_ANNOTATION,
    BANDWIDTH_ANNOTATION,
    DELAY_ANNOTATION,
    DEVICE_MEMORY_ANNOTATION,
    EGRESS_BANDWIDTH_KEY,
    ESTIMATE_ANNOTATION,
    GAS_ALLOW_KEY,
    GAS_DENY_KEY,
    GAS_SINGLE_NUMA_KEY,
    REPLICAS_ANNOTATION,
)

FILTER, PRIORITIZE, PREEMPT = "filter", "prioritize", "preempt"

READ_ANNOTATIONS = frozenset(
    {
        ACCELERATOR_ANNOTATION,
        BANDWIDTH_ANNOTATION,
        DELAY_ANNOTATION,
        DEVICE_MEMORY_ANNOTATION,
        EGRESS_BANDWIDTH_KEY,
        ESTIMATE_ANNOTATION,
        GAS_ALLOW_KEY,
        GAS_DENY_KEY,
        GAS_SINGLE_NUMA_KEY,
        REPLICAS_ANNOTATION,
    }
)
"""Of a pod's annotations, those that decisions read. PodInfo has a few more, and nothing else of them is recorded."""


class DecidedRequest(Struct, frozen=True):
    """One of kube-scheduler's requests, the inputs that it was decided on, and the answer.

    nodes: the candidates, each once.
    answer: what filter and preempt answered, or prioritize: node → score.
    fault: why it was answered without a decision (deadline, a plugin's error); "": it was decided.
    victims: of preempt, node → UIDs of the pods that would be evicted there.
    """

    verb: str
    pod: PodInfo
    nodes: Sequence[str]
    inputs: DecisionInputs
    answer: FilterResult | Mapping[str, int]
    fault: str = ""
    victims: Mapping[str, Sequence[str]] = {}
