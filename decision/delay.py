"""The delay bounds of a pod as a filter: a node passes only when every bound is known to hold there."""

from collections.abc import Iterator, Mapping, Sequence

from decision import bounds, pairs, table
from decision.bounds import BadLabel, Bound
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


def _refusals(bound: Bound, nodes: Sequence[str], facts: Facts) -> dict[str, Refusal]:
    if bound.reference not in facts.snapshot.nodes and bound.reference not in nodes:
        return dict.fromkeys(nodes, Refusal(NAME, f"no such node {bound.reference}"))
    between = pairs.between(bound.reference, nodes, facts)
    over = Refusal(NAME, f"delay to {bound.reference} over {bound.ms:g} ms")
    known = zip(between.known.nodes, between.known.numbers, strict=True)
    refused = {node: over for node, rtt_ms in known if rtt_ms > bound.ms}
    if facts.policy.delay.unmeasured is Unmeasured.REFUSE:
        refused |= _unknown(bound, between)
    return refused


def _unknown(bound: Bound, between: Pairs) -> dict[str, Refusal]:
    by_cause = [Refusal(NAME, REASONS[cause].format(bound.reference)) for cause in Cause]
    return {node: by_cause[cause] for node, cause in between.unknown.items()}


def _notes(node: str, found: Sequence[tuple[Bound, Pairs]]) -> Iterator[str]:
    """How a node that passes stands to each bound."""
    for bound, between in found:
        rtt_ms = between.known.get(node)
        if rtt_ms is None:
            yield f"{REASONS[between.unknown[node]].format(bound.reference)}, accepted by the policy"
        else:
            yield f"{table.number(rtt_ms)} ms from {bound.reference}, bound {bound.ms:g} ms"
