"""A DelayEvidence as a line: `3 ms from ref (measured by ref's agent, 2 to 5 ms, 1.0 s old), bound 5 ms`."""

from collections.abc import Iterator

from leadsman.decision.model import DelayEvidence
from leadsman.runtime import text_table

AGENTS_SOURCE = "agents"
"""A DelayEvidence's source when one of the two nodes' agents measured the pair."""
MAX_RTT_MS = 60_000.0
"""An interval that ends here has no upper end: leadsman.network.measured_pairs.MAX_RTT_MS."""


def evidence_text(evidence: DelayEvidence) -> str:
    return "; ".join(filter(None, [_grounds(evidence), evidence.doubt]))


def _grounds(evidence: DelayEvidence) -> str:
    if evidence.rtt_ms is None:
        return evidence.why
    about = "about " if evidence.estimated else ""
    grounds = f" ({', '.join(_details(evidence))})" if evidence.source else ""
    rtt = text_table.format_number(evidence.rtt_ms)
    return f"{about}{rtt} ms from {evidence.to}{grounds}, bound {evidence.bound_ms:g} ms"


def passing_text(evidence: DelayEvidence) -> str:
    """For a node that passes: what is not known was accepted."""
    return f"{evidence_text(evidence)}{', accepted' if evidence.rtt_ms is None else ''}"


def source_text(evidence: DelayEvidence) -> str:
    """Who measured it, or what estimated it."""
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
        yield from _interval(evidence.low_ms, evidence.high_ms)
    if evidence.age_seconds is not None:
        yield f"{evidence.age_seconds:.1f} s old"


def _is_by_others(evidence: DelayEvidence) -> bool:
    """Whether the round trip is not the reporter's own, to which the interval belongs: that one counts as more."""
    return bool(evidence.doubt) and not evidence.estimated


def _interval(low_ms: float, high_ms: float) -> Iterator[str]:
    """Nothing when both ends read the same."""
    low, high = text_table.format_number(low_ms), text_table.format_number(high_ms)
    if high_ms >= MAX_RTT_MS:
        yield f"{low} ms or more"
    elif low != high:
        yield f"{low} to {high} ms"
