"""The delay bounds of a pod as a filter: a node passes only when every bound is known to hold there."""

from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec import Struct

from decision import bounds, pairs, table
from decision.bounds import BadLabel, Bound
from decision.freshness import kept_while_fresh
from decision.model import Evidence, Facts, Pod, Refusal
from decision.pairs import Cause, Pairs
from decision.policy import Unmeasured

NAME = "delay"

REASONS = {
    Cause.UNMEASURED: "delay to {} not measured",
    Cause.PROVISIONAL: "delay to {} not confirmed since the start",
    Cause.STALE: "delay to {} is stale",
    Cause.NO_REPLY: "no reply between the node and {}",
}


class DelayFilter:
    """A hard bound is never dropped: an unknown delay refuses, unless the policy accepts it."""

    name = NAME

    def refusals(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Mapping[str, Refusal]:
        try:
            wanted = bounds.of(pod.labels)
        except BadLabel as error:
            return dict.fromkeys(nodes, Refusal(NAME, str(error)))
        refused: dict[str, Refusal] = {}
        for bound in wanted:
            left = [node for node in nodes if node not in refused] if refused else nodes
            refused |= _refusals(bound, left, facts)
        return refused

    def evidence(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Evidence:
        wanted = bounds.readable(pod.labels)
        found = [(bound, pairs.between(bound.reference, nodes, facts)) for bound in wanted]
        measured = {f"rtt_ms {bound.reference}": between.known for bound, between in found}
        return Evidence(measured, {node: "; ".join(_notes(node, found)) for node in nodes} if wanted else {})


class _Verdicts(Struct, frozen=True):
    """On the nodes that stand in a report. Any other is not measured, and stands in neither."""

    passing: Set[str]
    refused: Mapping[str, Refusal]


def _refusals(bound: Bound, nodes: Sequence[str], facts: Facts) -> Mapping[str, Refusal]:
    if bound.reference not in facts.snapshot.nodes and bound.reference not in nodes:
        return dict.fromkeys(nodes, Refusal(NAME, f"no such node {bound.reference}"))
    verdicts = kept_while_fresh((bound, facts.policy.delay), lambda: _verdicts(bound, facts), facts)
    refused = verdicts.refused
    if facts.policy.delay.unmeasured is Unmeasured.ACCEPT:
        return {node: refused[node] for node in nodes if node in refused}
    unmeasured = _unknown(bound, Cause.UNMEASURED)
    return {node: refused.get(node, unmeasured) for node in nodes if node not in verdicts.passing}


def _verdicts(bound: Bound, facts: Facts) -> _Verdicts:
    reports = pairs.reports(bound.reference, facts)
    over = Refusal(NAME, f"delay to {bound.reference} over {bound.ms:g} ms")
    refused = {node: over for node, rtt_ms in reports.known.items() if rtt_ms > bound.ms}
    passing = reports.known.keys() - refused.keys()
    if facts.policy.delay.unmeasured is Unmeasured.REFUSE:
        by_cause = [_unknown(bound, cause) for cause in Cause]
        refused |= {node: by_cause[cause] for node, cause in reports.causes.items()}
    return _Verdicts(passing, refused)


def _unknown(bound: Bound, cause: Cause) -> Refusal:
    return Refusal(NAME, REASONS[cause].format(bound.reference))


def _notes(node: str, found: Sequence[tuple[Bound, Pairs]]) -> Iterator[str]:
    """How a node that passes stands to each bound."""
    for bound, between in found:
        rtt_ms = between.known.get(node)
        if rtt_ms is None:
            yield f"{REASONS[between.unknown[node]].format(bound.reference)}, accepted by the policy"
        else:
            yield f"{table.number(rtt_ms)} ms from {bound.reference}, bound {bound.ms:g} ms"
