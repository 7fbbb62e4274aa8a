"""Finds pods that were bound against their delay bound, as no extender was asked, or kube-scheduler skipped its answer;
and says why others with a bound wait.

A pod is looked at from when it is first seen on its node, with the extender's own evaluation. Once it keeps its bounds
it was bound well: what its delay does later is for re-placement (`leadsman.planning.replacement_plan`). One that misses
a bound for HOLD_SECONDS was bound unchecked. The extender and the controller may see a change some seconds apart, so a
single look says nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain

from msgspec import Struct

from leadsman.decision.delay.bounds import BadBound, NoTarget, parse_bounds
from leadsman.decision.delay.evaluation import EvaluatedBound, evaluate_bounds
from leadsman.decision.delay.explain_delay import delay_evidence, evidence_text, passing_text
from leadsman.decision.delay.rtt_table import Outcome
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.planning.situation import deciding_ms, excess_ms, hardest
from leadsman.runtime.text_table import format_number

HOLD_SECONDS = 10.0
"""Two push intervals: a report that the extender had and this reader had not is here by then."""

UNKNOWN_AFTER_SECONDS = 60.0
"""A pod whose delay is still unknown then is given up: a value that comes later says little about the binding."""

RECENT_SECONDS = 120.0
"""A pod of the first look that was bound longer ago is left out: its delay may have changed since."""

_OVER = frozenset({Outcome.MEASURED_OVER, Outcome.ESTIMATE_OVER})


class BoundResult(StrEnum):
    """Says what became of looking at a pod."""

    KEPT = "kept"
    UNCHECKED = "unchecked"
    UNKNOWN = "unknown"


class BoundPod(Struct, frozen=True):
    """A pod with a delay bound, on its node.

    bound_at: Unix seconds, of its condition PodScheduled; None: it has none.
    """

    info: PodInfo
    node: str
    bound_at: float | None = None


class SweepMemory(Struct, frozen=True):
    """Remembers what the next sweep begins with.

    began: whether there was a sweep before.
    since: UID → monotonic seconds of the first look at a pod, and since when it is known to miss its bounds, or None.
    done: UIDs of pods that are looked at no more.
    """

    began: bool = False
    since: Mapping[str, tuple[float, float | None]] = {}
    done: frozenset[str] = frozenset()


class BoundSweep(Struct, frozen=True):
    """Says what one sweep found.

    unchecked: pods that nobody checked, each with the bound that it misses and by what value, or why there is nothing
        to hold it to.
    kept: the pods that were found to keep their bounds. ended: how many pods came to which result.
    """

    unchecked: tuple[tuple[BoundPod, str], ...]
    kept: tuple[BoundPod, ...]
    ended: Mapping[BoundResult, int]
    memory: SweepMemory


def sweep_bound_pods(
    pods: Iterable[BoundPod], inputs: DecisionInputs, memory: SweepMemory, now: float, unix: float
) -> BoundSweep:
    """Looks at the pods that are not done. Nothing is judged before nodes and workloads are known.

    pods: all with a bound that are on a node.
    now, unix: monotonic and Unix seconds.
    """
    if not inputs.workloads.loaded or not (inputs.snapshot.nodes or inputs.delay_views):
        return BoundSweep((), (), {}, memory)
    current = {pod.info.uid: pod for pod in pods}
    done, since = memory.done & current.keys(), dict[str, tuple[float, float | None]]()
    unchecked, kept, ended = list[tuple[BoundPod, str]](), list[BoundPod](), Counter[BoundResult]()
    for uid, pod in current.items():
        if uid in done:
            continue
        if not memory.began and pod.bound_at is not None and pod.bound_at < unix - RECENT_SECONDS:
            done |= {uid}
            continue
        first_look, missed_since = memory.since.get(uid, (now, None))
        why, unknown = _missed(pod, inputs)
        missed_since = (now if missed_since is None else missed_since) if why else None
        result = _result(unknown, now - first_look, None if missed_since is None else now - missed_since)
        if result is None:
            since[uid] = first_look, missed_since
            continue
        done |= {uid}
        ended[result] += 1
        if result is BoundResult.UNCHECKED:
            unchecked.append((pod, why))
        elif result is BoundResult.KEPT:
            kept.append(pod)
    return BoundSweep(tuple(unchecked), tuple(kept), ended, SweepMemory(True, since, done))


def pods_over_bounds(pods: Iterable[BoundPod], inputs: DecisionInputs) -> int:
    """Says how many of these pods miss a bound on the node that they are on, by what is known now."""
    return sum(bool(_missed(pod, inputs)[0]) for pod in pods)


def placement_reason(pod: BoundPod, inputs: DecisionInputs) -> str:
    """Says how the pod's node keeps its bounds, in one line."""
    evidence = delay_evidence(pod.info, (pod.node,), inputs).distances.get(pod.node, ())
    return "; ".join(map(passing_text, evidence))


def _result(unknown: bool, seconds: float, missed_seconds: float | None) -> BoundResult | None:
    """Returns what became of a pod; None: it is looked at again.

    seconds: since the first look. missed_seconds: for which it is known to miss a bound; None: it is not.
    """
    if missed_seconds is None and not unknown:
        return BoundResult.KEPT
    if missed_seconds is not None and missed_seconds >= HOLD_SECONDS:
        return BoundResult.UNCHECKED
    return BoundResult.UNKNOWN if seconds >= UNKNOWN_AFTER_SECONDS else None


def _missed(pod: BoundPod, inputs: DecisionInputs) -> tuple[str, bool]:
    """Says why the pod's node misses its bounds, "" when it is not known to; and whether one is unknown there."""
    try:
        bounds = parse_bounds(pod.info)
    except BadBound as error:
        return str(error), False
    outcomes = set[Outcome]()
    for each in evaluate_bounds(bounds, pod.info, (pod.node,), inputs):
        if isinstance(each, NoTarget):
            return each.reason, False
        outcomes.add(Outcome(int(each.evaluation.outcome[each.evaluation.index.position(pod.node)])))
    if not outcomes & _OVER:
        return "", any(outcome.refuses for outcome in outcomes)
    evidence = delay_evidence(pod.info, (pod.node,), inputs).distances[pod.node]
    over = [each for each in evidence if each.rtt_ms is not None and each.rtt_ms > each.bound_ms]
    return "; ".join(map(evidence_text, over)), False


# Why a pod with a delay bound waits: which bound refuses it, how far the nearest node is, what would help. The nodes
# are judged by the extender's own evaluation, so what is said here is what kube-scheduler was answered.


def wait_reason(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> tuple[str, str]:
    """Says why no node of `nodes` takes the pod, which has a delay bound: what stays the same when delays are measured
    again, the bound and the nearest node; and a sentence with the values, and what would help."""
    try:
        bounds = parse_bounds(pod)
    except BadBound as error:
        return "bad bound", f"{error}; correct it on the workload's pod template"
    if not nodes:
        return "no nodes", "no node is known; see leadsman state"
    resolved = evaluate_bounds(bounds, pod, nodes, inputs)
    for each in resolved:
        if isinstance(each, NoTarget):
            return each.reason, f"{each.reason}; start it, or correct the name in the bound"
    evaluated = [each for each in resolved if isinstance(each, EvaluatedBound)]
    by_node = delay_evidence(pod, nodes, inputs).distances
    if not (passing := [node for node in nodes if all(_passes(each, node) for each in evaluated)]):
        return _all_too_far(by_node)
    nearest = min(passing, key=lambda node: (_excess_ms(by_node.get(node, ())), node))
    return (
        f"within: {nearest}",
        f"{len(passing)} of {len(nodes)} nodes are within its delay bounds, {nearest} is the nearest; something else"
        " refuses them: read the pod's FailedScheduling Event and `leadsman explain`",
    )


def _passes(bound: EvaluatedBound, node: str) -> bool:
    evaluation = bound.evaluation
    return not Outcome(int(evaluation.outcome[evaluation.index.position(node)])).refuses


def _excess_ms(evidence: Sequence[DelayEvidence]) -> float:
    decides = hardest(evidence)
    return (excess_ms(decides) or 0.0) if decides else 0.0


def _all_too_far(by_node: Mapping[str, tuple[DelayEvidence, ...]]) -> tuple[str, str]:
    decides = {node: each for node, evidence in by_node.items() if (each := hardest(evidence)) is not None}
    known = [node for node, each in decides.items() if excess_ms(each) is not None]
    if not known:
        one = next(iter(decides.values()))
        return (
            f"unknown: {one.to}",
            f"no node's delay to {one.to} is known, and its bound of {one.bound_ms:g} ms must be checked; agents"
            " measure it on request within seconds: if this stays, look whether they run on these nodes"
            " (leadsman nodes)",
        )
    nearest = min(known, key=lambda node: (_excess_ms(by_node[node]), node))
    return f"{decides[nearest].to}: {nearest}", _nearest_text(nearest, decides[nearest], chain(*by_node.values()))


def _nearest_text(node: str, evidence: DelayEvidence, all_evidence: Iterable[DelayEvidence]) -> str:
    deciding = deciding_ms(evidence)
    assert deciding is not None, "the nearest is chosen among the known"
    by = format_number(deciding - evidence.bound_ms)
    of_others = (each for each in all_evidence if (each.to, each.bound_ms) == (evidence.to, evidence.bound_ms))
    missed = f"no node is within {evidence.bound_ms:g} ms of {evidence.to}: the nearest, {node}, is"
    if any((excess := excess_ms(each)) is not None and excess <= 0 for each in of_others):
        missed = f"no node keeps all its bounds; {node} misses them least: from {evidence.to} it is"
    if evidence.estimated:
        return (
            f"{missed} up to {format_number(deciding)} ms away by estimate, {by} ms too far; it is measured on request;"
            f" if that is too far too, raise the bound or run {evidence.to} nearer"
        )
    return (
        f"{missed} {format_number(deciding)} ms away, {by} ms too far; raise the bound to {format_number(deciding)} ms"
        f" or more, or run {evidence.to} nearer to a node with room"
    )
