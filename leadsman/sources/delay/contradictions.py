"""Which nodes report delays that others contradict, each with the sentence that pages, commands and logs show."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from leadsman.network.plausibility import MIN_REPORTERS, denied, mostly
from leadsman.runtime.text_table import format_number
from leadsman.sources.delay.measurements import Measurements

_MAX_LISTED = 3
"""Nodes that a sentence names. The API has all of a node.."""
_EVASIVE_TEXT = (
    f"fewer than {MIN_REPORTERS} of the nodes that probe it get a reply, so no delay that it alone reports counts"
)


def contradictions(
    measured: Measurements, is_implausible: NDArray[np.bool_], is_evasive: NDArray[np.bool_]
) -> Mapping[str, str]:
    """Node → what it reports that others contradict: most of its reports, or one that the other end measured too.

    An honest node has an implausible report now and then, which only the estimates leave out: no sentence.
    is_evasive: of each node, as in Plausibility.
    """
    reports = measured.reports
    is_denied, by_most = denied(is_implausible, reports), mostly(is_implausible, reports)
    sentences = {
        measured.nodes[node]: _denied_text(measured, np.flatnonzero(is_denied & (measured.source == node)))
        for node in np.unique(measured.source[is_denied]).tolist()
    }
    for node in np.flatnonzero(by_most).tolist():
        own = measured.source == node
        if is_evasive[node]:
            sentences[measured.nodes[node]] = _EVASIVE_TEXT
            continue
        targets = [measured.nodes[target] for target in measured.target[own & is_implausible].tolist()]
        head = f"other nodes contradict {len(targets)} of the {np.count_nonzero(own)} delays that it reports"
        sentences[measured.nodes[node]] = f"{head}: to {_listed(targets)}"
    return sentences


def _denied_text(measured: Measurements, at: NDArray[np.intp]) -> str:
    """at: the denied reports of one node."""
    other_ms = np.exp(measured.reports.by_other_end()[at])
    pairs = [
        f"it reports {format_number(own)} ms to {measured.nodes[target]}, which measures {format_number(other)} ms"
        for own, target, other in zip(
            measured.rtt_ms[at].tolist(), measured.target[at].tolist(), other_ms.tolist(), strict=True
        )
    ]
    return f"other nodes contradict what it reports: {_listed(pairs)}"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MAX_LISTED} more" if len(texts) > _MAX_LISTED else ""
    return ", ".join(texts[:_MAX_LISTED]) + more
