"""Explains how each node stands to each delay bound: the pair that decides, and what its value rests on."""

from collections.abc import Iterator, Sequence
from math import isfinite, isnan

from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.evaluation import EvaluatedBound, PairRow, evaluate_bounds, pair_rows, why_refused
from leadsman.decision.delay.rtt_table import (
    BEFORE_FAILURE,
    BY_AGENTS,
    FIRST_VIEW,
    IMPLAUSIBLE,
    NO_REPLY,
    Outcome,
    rtt_getter,
)
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, Evidence, PodInfo
from leadsman.decision.view import peer_windows
from leadsman.runtime import text_table

# A DelayEvidence as a line: `3 ms from ref (measured by ref's agent, 2 to 5 ms, 1.0 s old), bound 5 ms`.

_UNCONFIRMED = "and nobody confirms it"

AGENTS_SOURCE = "agents"
"""A DelayEvidence's source when one of the two nodes' agents measured the pair."""
MAX_RTT_MS = 60_000.0
"""An interval that ends here has no upper end: leadsman.network.measured_pairs.MAX_RTT_MS."""


def evidence_text(evidence: DelayEvidence) -> str:
    text = evidence.why
    if evidence.rtt_ms is not None:
        rtt = f"{'about ' if evidence.estimated else ''}{text_table.format_number(evidence.rtt_ms)}"
        grounds = f" ({', '.join(_details(evidence))})" if evidence.source else ""
        text = f"{rtt} ms from {evidence.to}{grounds}, bound {evidence.bound_ms:g} ms"
    return "; ".join(filter(None, [text, evidence.doubt]))


def passing_text(evidence: DelayEvidence) -> str:
    """Describes a bound that the node passes, and says when what is not known was accepted."""
    return f"{evidence_text(evidence)}{', accepted' if evidence.rtt_ms is None else ''}"


def source_text(evidence: DelayEvidence) -> str:
    """Says who measured a delay, or what estimated it."""
    if _is_by_others(evidence):
        return "by what other nodes report"
    if evidence.source == AGENTS_SOURCE:
        return f"measured by {evidence.reporter}'s agent"
    return f"{evidence.source}, measured by {evidence.reporter}" if evidence.reporter else evidence.source


def _details(evidence: DelayEvidence) -> Iterator[str]:
    if evidence.pod:
        yield f"{evidence.pod} on {evidence.reference}"
    yield source_text(evidence)
    if evidence.low_ms is not None and evidence.high_ms is not None and not _is_by_others(evidence):
        low, high = text_table.format_number(evidence.low_ms), text_table.format_number(evidence.high_ms)
        if evidence.high_ms >= MAX_RTT_MS:
            yield f"{low} ms or more"
        elif low != high:
            yield f"{low} to {high} ms"
    if evidence.age_seconds is not None:
        yield f"{evidence.age_seconds:.1f} s old"


def _is_by_others(evidence: DelayEvidence) -> bool:
    """Tells whether the round trip is not the reporter's own, to which the interval belongs: that one counts as
    more."""
    return bool(evidence.doubt) and not evidence.estimated and not evidence.doubt.endswith(_UNCONFIRMED)


def delay_evidence(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
    """Returns the evidence on bounds that have a target; the refusal says all about the others."""
    resolved = evaluate_bounds(valid_bounds(pod), pod, nodes, inputs)
    evaluated = [each for each in resolved if isinstance(each, EvaluatedBound)]
    if not evaluated:
        return Evidence()
    with_rows = [(each, pair_rows(each, inputs)) for each in evaluated]
    evidence = dict[str, tuple[DelayEvidence, ...]]()
    for node in nodes:
        inputs.checkpoint()
        evidence[node] = tuple(_node_evidence(each, rows, node, inputs) for each, rows in with_rows)
    notes = {node: "; ".join(map(passing_text, distances)) for node, distances in evidence.items()}
    measured = {
        f"rtt_ms {each.target.name}": {
            node: rtt_ms
            for node, of_node in evidence.items()
            if (rtt_ms := of_node[number].rtt_ms) is not None and not of_node[number].estimated
        }
        for number, each in enumerate(evaluated)
    }
    return Evidence(measured, notes, evidence)


def _node_evidence(each: EvaluatedBound, rows: Sequence[PairRow], node: str, inputs: DecisionInputs) -> DelayEvidence:
    bound, target, evaluation = each
    at = evaluation.index.position(node)
    row, reading = rows[evaluation.decides[at]], float(evaluation.reading[at])
    rtt_ms = None if isnan(evaluation.rtt_ms[at]) else float(evaluation.rtt_ms[at])
    why = "" if reading >= 0 else why_refused(Outcome(int(-reading)), target, bound)
    about = (target.name, row.reference, bound.ms, target.pods.get(row.reference, ""), rtt_ms)
    if rtt_ms is None or node == row.reference:
        return DelayEvidence(*about, why=why, doubt=_doubt(row, at, node, inputs))
    low_ms, high_ms, source, reporter, age_seconds = _grounds(row, at, rtt_ms, node, inputs)
    doubt = _doubt(row, at, node, inputs)
    return DelayEvidence(*about, low_ms, high_ms, source, reading < 0, age_seconds, why, doubt, reporter)


def _doubt(row: PairRow, at: int, node: str, inputs: DecisionInputs) -> str:
    """Says that one end's report is not believed, counts as more, or is confirmed by nobody, or that a direction is
    lost."""
    reading, others = float(row.measured.reading[at]), row.estimated
    if reading == NO_REPLY:
        return _lost_direction(row.reference, node, inputs)
    if row.measured.lone[at]:
        return f"{node if row.measured.backward[at] else row.reference} alone reports it, {_UNCONFIRMED}"
    if others is None or row.measured.source[at] != BY_AGENTS or not (reading == IMPLAUSIBLE or reading >= 0):
        return ""
    reporter, peer = (node, row.reference) if row.measured.backward[at] else (row.reference, node)
    window = peer_windows(inputs.snapshot.nodes.get(reporter)).get(peer)
    reported_ms = rtt_getter(inputs.policy.delay.statistic)(window) if window else None
    if reported_ms is None or reported_ms == reading:
        return ""
    reports = f"{reporter} alone reports {text_table.format_number(reported_ms)} ms"
    if reading >= 0:
        return f"{reports}, which is less"
    lowest_ms = float(others.lowest_ms[at])
    because = (
        f"other nodes' reports allow no less than {text_table.format_number(lowest_ms)} ms"
        if isfinite(lowest_ms)
        else "too few of the nodes that probe one of the two get a reply"
    )
    return f"{reports} and is not believed: {because}"


def _lost_direction(reference: str, node: str, inputs: DecisionInputs) -> str:
    """Says which of the two agents gets no reply from the other, when that one does; "" when neither."""
    for reporter, other in ((reference, node), (node, reference)):
        back = peer_windows(inputs.snapshot.nodes.get(other)).get(reporter)
        back_ms = rtt_getter(inputs.policy.delay.statistic)(back) if back else None
        window = peer_windows(inputs.snapshot.nodes.get(reporter)).get(other)
        if window and not window.received and back_ms is not None:
            return f"{reporter} gets no reply from {other}, which measures {text_table.format_number(back_ms)} ms back"
    return ""


def _grounds(
    row: PairRow, at: int, rtt_ms: float, node: str, inputs: DecisionInputs
) -> tuple[float, float, str, str, float | None]:
    """Returns interval, source, reporter and age of a pair's round trip."""
    measured, estimated, estimates = row.measured, row.estimated, inputs.estimates
    if measured.reading[at] < 0 and estimated and estimates:
        source, age_seconds = estimated.sources[estimated.source[at]], inputs.now - estimates.made_at
        return float(estimated.low_ms[at]), float(estimated.high_ms[at]), source, "", age_seconds
    if measured.source[at] == BEFORE_FAILURE:
        measured_at = inputs.last_round_trips[row.reference].measured_at
        return rtt_ms, rtt_ms, "before-failure", "", inputs.now - measured_at
    reporter, peer = (node, row.reference) if measured.backward[at] else (row.reference, node)
    if measured.source[at] != BY_AGENTS:
        view = inputs.delay_views[measured.source[at] - FIRST_VIEW]
        return rtt_ms, rtt_ms, view.source, reporter, None if view.read_at is None else inputs.now - view.read_at
    window, state = peer_windows(inputs.snapshot.nodes.get(reporter))[peer], inputs.snapshot.nodes[reporter]
    low_ms, high_ms = (rtt_ms if end is None else end for end in (window.min_ms, window.p95_ms))
    return low_ms, high_ms, AGENTS_SOURCE, reporter, state.age_seconds(inputs.now)
