"""What would give a pod a node, when none passed. Nothing is said to help before it was decided again with it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import ceil

from msgspec.structs import replace

from leadsman.decision.decide import FilterResult
from leadsman.decision.delay.bounds import BadBound, DelayBound, NoTarget, TargetName, parse_bounds, resolve_target
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.rtt_table import Outcome, reason
from leadsman.decision.freshness import freshness_of
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX
from leadsman.state.snapshot import Freshness

FilterNodes = Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult]

_TRIED_NODES = 8
"""Of each bound, nodes that a looser one is tried for, the nearest first."""

_ANY_MS = 60_000.0
"""Above every round trip that a record can hold."""

_NAMED_NODES = 3


def remedies(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, filter_nodes: FilterNodes) -> list[str]:
    """What is wrong with the bounds themselves comes first and alone: while it stands, no other change helps."""
    try:
        bounds = parse_bounds(pod)
    except BadBound as error:
        return [str(error)]
    if unresolved := list(_unresolved(bounds, pod, nodes, inputs)):
        return unresolved
    distances = delay_evidence(pod, nodes, inputs).distances
    return [
        *_looser_bounds(bounds, pod, nodes, inputs, filter_nodes),
        *_unmeasured(distances, inputs),
    ]


def _unresolved(
    bounds: Sequence[DelayBound], pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs
) -> Iterator[str]:
    for bound in bounds:
        target = resolve_target(bound, pod, nodes, inputs)
        if isinstance(target, NoTarget):
            near = get_close_matches(TargetName.of(bound.reference).name, sorted({*inputs.snapshot.nodes, *nodes}), n=1)
            meant = f"; did you mean {near[0]}?" if near and target.reason.startswith("no such") else ""
            yield f"{target.reason}{meant}"


def _looser_bounds(
    bounds: Sequence[DelayBound],
    pod: PodInfo,
    nodes: Sequence[str],
    inputs: DecisionInputs,
    filter_nodes: FilterNodes,
) -> Iterator[str]:
    """For each bound that alone stands in the way of some node, the least change that lets one pass."""
    found = list[tuple[float, str]]()
    for reference, bound_ms in {bound.reference: bound.ms for bound in bounds}.items():
        without = _with_bound(pod, reference, _ANY_MS)
        kept = filter_nodes(without, nodes, inputs).kept
        reached = [
            (decisive_ms, node)
            for node, distances in delay_evidence(without, kept, inputs).distances.items()
            for each in distances
            if each.bound_ms == _ANY_MS and (decisive_ms := _decisive_ms(each)) is not None
        ]
        for decisive_ms, node in sorted(reached)[:_TRIED_NODES]:
            needed_ms = max(ceil(decisive_ms), 1)
            if filter_nodes(_with_bound(pod, reference, needed_ms), [node], inputs).kept:
                over_ms = decisive_ms - bound_ms
                found.append(
                    (
                        over_ms,
                        f"a bound of {needed_ms} ms to {reference} lets {node} pass: it is {decisive_ms:.3g} ms away,"
                        f" {over_ms:.3g} ms over the bound of {bound_ms:g} ms",
                    )
                )
                break
    yield from (text for _, text in sorted(found))


def _with_bound(pod: PodInfo, reference: str, ms: float) -> PodInfo:
    """The same pod, with its bounds to this reference at so many milliseconds."""
    label = f"{DELAY_LABEL_PREFIX}{reference}"
    line = re.compile(rf"^(\s*{re.escape(reference)}\s*:\s*)[0-9.]+", re.MULTILINE)
    labels = {**pod.labels, label: f"{ms:.0f}"} if label in pod.labels else pod.labels
    text = line.sub(rf"\g<1>{ms:.0f}", pod.annotations.get(DELAY_ANNOTATION, ""))
    return replace(pod, labels=labels, annotations={**pod.annotations, DELAY_ANNOTATION: text})


def _decisive_ms(evidence: DelayEvidence) -> float | None:
    """What is compared with the bound: of an estimate its upper end."""
    return evidence.high_ms if evidence.estimated else evidence.rtt_ms


def _unmeasured(distances: Mapping[str, Sequence[DelayEvidence]], inputs: DecisionInputs) -> Iterator[str]:
    """Why nodes have no round trip to a target, those that get no reply first."""
    silent, unknown = dict[str, list[str]](), dict[str, list[str]]()
    for node, bounds in distances.items():
        for each in bounds:
            if each.why == reason(Outcome.NO_REPLY, each.to, each.bound_ms):
                silent.setdefault(each.reference, []).append(node)
            elif _decisive_ms(each) is None:
                unknown.setdefault(each.reference, []).append(node)
    for reference, nodes in silent.items():
        yield (
            f"no reply between {reference} and {_named(nodes)}: look at the network between them;"
            " no bound lets such a node pass"
        )
    for reference, nodes in unknown.items():
        if freshness_of(reference, inputs) is not Freshness.FRESH:
            yield f"nothing new is reported by {reference}: see that an agent runs there and reaches etcd"
        else:
            yield (
                f"no delay is known between {reference} and {_named(nodes)}: agents are asked to measure some of these"
                " pairs, and the next attempt uses it"
            )


def _named(nodes: Sequence[str]) -> str:
    if len(nodes) <= _NAMED_NODES:
        return " and ".join(nodes)
    return f"{len(nodes)} nodes ({', '.join(nodes[:_NAMED_NODES])}, …)"
