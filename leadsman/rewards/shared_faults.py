"""Estimates whether a whole node or a whole rack is at fault, from what the pod types on them say together.

    accusation     how much better one type's trials on a node fit "something is wrong here" than "as elsewhere": the
                   logarithm of the Bayes factor, at most MAX_LOG_FACTOR, so that one type proves nothing alone
    node's fault   prior NODE_FAULT_RATIO, and by Bayes' rule the accusations of the *other* types. It raises the prior
                   of the type in question, so one failure warns all types
    rack's fault   prior RACK_FAULT_RATIO, and the evidence of the *other* nodes of the rack without the strongest. So
                   one node, broken or lying, puts no doubt on its neighbours; two do

A type that fails everywhere, or that has hardly run elsewhere, accuses no node: `leadsman.decision.rewards` leaves it
out.

Source: naive Bayes over independent witnesses in a hierarchy of causes, Gelman et al., Bayesian Data Analysis, 3rd
edition (2013), chapter 5.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from typing import NamedTuple

from leadsman.rewards.posterior import SOUND_RATIO, Trials, log_bayes_factor

NODE_FAULT_RATIO = 0.05
"""Prior probability of a fault that meets all types on a node: half of SOUND_RATIO's complement."""

RACK_FAULT_RATIO = 0.05
"""Prior probability that a rack of which a node is at fault is at fault as a whole."""

MAX_LOG_FACTOR = log(10.0)

MIN_FAULT_RATIO = 0.15
"""Below this nobody is warned. One type's failure is believed for some half an hour, two types' for hours: sound nodes
have their chance failures too, and would otherwise be avoided most of the time."""


class Accusation(NamedTuple):
    """Says what the failures of one pod type say of a node.

    log_factor: ln of the Bayes factor, 0..MAX_LOG_FACTOR.
    age_seconds: since the last failure.
    """

    log_factor: float
    age_seconds: float


class SharedDoubt(NamedTuple):
    """Says what other types' failures say of a node for one pod type.

    fault_ratio: probability of a fault of the whole node or rack.
    age_seconds: since the last of these failures.
    """

    fault_ratio: float
    age_seconds: float

    @property
    def sound_ratio(self) -> float:
        """Returns the prior probability that nothing is wrong with the node for this type."""
        return SOUND_RATIO / (1.0 - NODE_FAULT_RATIO) * (1.0 - self.fault_ratio)


AccusationsByType = Mapping[str, Mapping[str, Accusation]]
"""Maps pod type → node → its accusation."""


def accuse(trials: Trials, typical_ratio: float, age_seconds: float) -> Accusation | None:
    """Returns the accusation by these trials; None when they fit what is usual elsewhere."""
    log_factor = log_bayes_factor(trials.recent, trials.failed, typical_ratio)
    return Accusation(min(MAX_LOG_FACTOR, log_factor), age_seconds) if log_factor > 0.0 else None


def shared_doubts(pod_type: str, by_type: AccusationsByType, racks: Iterable[Sequence[str]]) -> dict[str, SharedDoubt]:
    """Maps each node to what others' failures say of it for this pod type; nodes of which they say nothing are absent.

    racks: the nodes of each rack.
    """
    doubts: dict[str, SharedDoubt] = {}
    for node, accusations in _by_node(by_type, without=pod_type).items():
        doubts[node] = SharedDoubt(_probability(NODE_FAULT_RATIO, _total(accusations)), _latest(accusations))
    accused = _by_node(by_type)
    for nodes in racks:
        evidence = {node: _rack_evidence(_total(accused[node])) for node in nodes if node in accused}
        for node in nodes:
            witnesses = sorted((each for each in evidence if each != node), key=evidence.__getitem__)[:-1]
            if witnesses:
                rack = _probability(RACK_FAULT_RATIO, sum(evidence[each] for each in witnesses))
                age = min(_latest(accused[each]) for each in witnesses)
                doubts[node] = _either(doubts.get(node), rack, age)
    return {node: doubt for node, doubt in doubts.items() if doubt.fault_ratio >= MIN_FAULT_RATIO}


def _by_node(by_type: AccusationsByType, without: str | None = None) -> dict[str, list[Accusation]]:
    accused = defaultdict[str, list[Accusation]](list)
    for pod_type, nodes in by_type.items():
        if pod_type != without:
            for node, accusation in nodes.items():
                accused[node].append(accusation)
    return accused


def _rack_evidence(log_factor: float) -> float:
    """Returns ln of how much likelier a node's trials are when its rack is at fault than when it may be so alone."""
    factor = exp(min(500.0, log_factor))
    return log(factor / (1.0 - NODE_FAULT_RATIO + NODE_FAULT_RATIO * factor))


def _either(node: SharedDoubt | None, rack_fault_ratio: float, age_seconds: float) -> SharedDoubt:
    fault, age = node or SharedDoubt(NODE_FAULT_RATIO, age_seconds)
    return SharedDoubt(1.0 - (1.0 - fault) * (1.0 - rack_fault_ratio), min(age, age_seconds))


def _probability(prior: float, log_factor: float) -> float:
    odds = prior / (1.0 - prior) * exp(min(500.0, log_factor))
    return odds / (1.0 + odds)


def _total(accusations: Sequence[Accusation]) -> float:
    return sum(each.log_factor for each in accusations)


def _latest(accusations: Sequence[Accusation]) -> float:
    return min(each.age_seconds for each in accusations)
