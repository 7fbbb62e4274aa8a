"""Estimates of a fit under the nodes' names, without implausible reports, and where the next fit starts."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadsman.decision.inputs import EstimatedRow
from leadsman.network.estimates import ESTIMATE_SOURCES, EstimateSource, NetworkEstimates
from leadsman.network.fitting import FitBudget, carry_over, fit_network, moved_nodes, renumber_pairs
from leadsman.network.former_pairs import FormerPairs, former_pairs
from leadsman.network.measured_pairs import Indices, MeasuredPairs
from leadsman.network.plausibility import MIN_REPORTERS, Plausibility, denied, mostly, place_by_others
from leadsman.runtime.text_table import format_number
from leadsman.sources.delay.measurements import Measurements

# Which nodes report delays that others contradict, each with the sentence that pages, commands and logs show.

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


MAX_MOVED_SHARE = 0.5
"""Share of the nodes. When more have moved, the positions of the others are no good start either."""

SEED = 0
"""The same measurements, now and before, give the same estimates in every replica."""

REMEMBER_EVERY_SECONDS = 240.0
"""Time between two sets of measurements that are remembered: by then, agents with 16 peers replaced the random ones."""
MAX_REMEMBERED_SETS = 8
MAX_REMEMBERED_SECONDS = 3_600.0


class RememberedSet(NamedTuple):
    """The measurements that were trusted at one moment. read_at: monotonic seconds."""

    nodes: tuple[str, ...]
    sites: tuple[tuple[str, str, str], ...]
    pairs: MeasuredPairs
    read_at: float


class FittedEstimates:
    """Estimates as an EstimateView of leadsman.decision.inputs: none is below what is plausible for its pair.

    measured: all that was read; trusted: what the estimates were fitted to.
    implausible: reporter → the nodes that it reported a delay to which was left out.
    contradicted: node → what it reports that others contradict, as a sentence; see `contradictions`.
    made_at: monotonic seconds when the measurements were read.
    remembered: measurements up to then, the newest first.
    """

    def __init__(
        self,
        measured: Measurements,
        is_implausible: NDArray[np.bool_],
        estimates: NetworkEstimates,
        plausibility: Plausibility,
        made_at: float,
        remembered: Sequence[RememberedSet] = (),
    ) -> None:
        self.measured, self.trusted = measured, measured.without(is_implausible)
        self.remembered = _remember(remembered, self.trusted, made_at)
        self.estimates, self.plausibility, self.made_at = estimates, plausibility, made_at
        left_out: dict[str, list[str]] = {}
        for reporter, target in zip(
            measured.source[is_implausible].tolist(), measured.target[is_implausible].tolist(), strict=True
        ):
            left_out.setdefault(measured.nodes[reporter], []).append(measured.nodes[target])
        self.implausible: Mapping[str, Sequence[str]] = left_out
        self.contradicted = contradictions(measured, is_implausible, plausibility.is_evasive)

    @cached_property
    def node_indices(self) -> Mapping[str, int]:
        """Node → its number in the fit."""
        return {node: number for number, node in enumerate(self.measured.nodes)}

    def row(self, reference: str) -> EstimatedRow:
        """The estimates from one node to all others; EstimatedRow() for a node that is not in the fit."""
        at = self.node_indices.get(reference)
        if at is None:
            return EstimatedRow()
        rtt_ms, low_ms, high_ms, source = self.estimates.row(at)
        expected_ms, lowest_ms = self.plausibility.row(at)
        raised = (source > ESTIMATE_SOURCES.index(EstimateSource.MEASURED)) & np.isfinite(lowest_ms)
        for column in (rtt_ms, high_ms):
            np.maximum(column, lowest_ms, out=column, where=raised, casting="same_kind")
        of = np.flatnonzero((source >= 0) | (lowest_ms > 0))
        columns = (rtt_ms, low_ms, high_ms, expected_ms, lowest_ms)
        rtts, lows, highs, expected, lowest = (column[of].tolist() for column in columns)
        nodes = [self.measured.nodes[number] for number in of.tolist()]
        sources = [ESTIMATE_SOURCES[number].value for number in source[of].tolist()]
        return EstimatedRow(nodes, rtts, lows, highs, sources, expected, lowest)


def fit_estimates(
    measured: Measurements, made_at: float, before: FittedEstimates | None = None, budget: FitBudget | None = None
) -> FittedEstimates:
    """Fits estimates to the measurements that are plausible by it. What was implausible the last time is left out from
    the start. A reporter most of whose reports turn out to be implausible may have moved others, so all is fitted again
    without them; single ones move nobody.

    before: the fit to start from.
    budget: None: as many steps as improve it, seconds at any size.
    """
    suspected, reports = _suspected(before, measured), measured.reports
    start = None if before is None else _warm_start(before, measured.without(suspected))
    if start is None:
        suspected[:] = False
    trusted = measured.without(suspected)
    remembered = () if before is None else before.remembered
    former = _former_pairs(remembered, trusted)
    estimates = fit_network(trusted.pairs, np.random.default_rng(SEED), measured.groups, start, budget, former)
    plausibility = place_by_others(estimates.model.members, reports)
    implausible = plausibility.implausible(reports)
    trusted, discredited = measured.without(implausible), mostly(implausible & ~suspected, reports)
    if discredited.any():
        previous = np.where(discredited, -1, np.arange(len(measured.nodes)))
        start = carry_over(estimates, previous, trusted.pairs)._replace(drift=1.0)
        former = _former_pairs(remembered, trusted)
        estimates = fit_network(trusted.pairs, np.random.default_rng(SEED), measured.groups, start, budget, former)
        plausibility = place_by_others(estimates.model.members, reports)
        implausible = plausibility.implausible(reports)
        trusted = measured.without(implausible)
    levels = tuple(level.without_strangers(trusted.reports) for level in estimates.group_medians)
    estimates = estimates._replace(pairs=trusted.pairs, is_measured=trusted.pairs.degree > 0, group_medians=levels)
    return FittedEstimates(measured, implausible, estimates, plausibility, made_at, remembered)


def _remember(remembered: Sequence[RememberedSet], trusted: Measurements, now: float) -> Sequence[RememberedSet]:
    """Adds what is trusted now when the newest set is old enough, and leaves out what is too old."""
    young = [each for each in remembered if now - each.read_at <= MAX_REMEMBERED_SECONDS]
    if young and now - young[0].read_at < REMEMBER_EVERY_SECONDS:
        return young
    return [RememberedSet(trusted.nodes, trusted.sites, trusted.pairs, now), *young][:MAX_REMEMBERED_SETS]


def _former_pairs(remembered: Sequence[RememberedSet], measured: Measurements) -> FormerPairs:
    """The remembered pairs that are not measured now, of nodes that stayed where they were."""
    earlier = []
    for each in remembered:
        pairs = renumber_pairs(each.pairs, _previous_indices(each.nodes, each.sites, measured))
        moved = moved_nodes(pairs, measured.pairs)
        earlier.append(pairs.where(~moved[pairs.first] & ~moved[pairs.second]))
    return former_pairs(earlier, measured.pairs)


def _suspected(before: FittedEstimates | None, measured: Measurements) -> NDArray[np.bool_]:
    """The reports of pairs whose report the fit before left out."""
    number = {node: at for at, node in enumerate(measured.nodes)} if before and before.implausible else {}
    keys = [
        number[reporter] * len(measured.nodes) + number[target]
        for reporter, targets in (before.implausible.items() if before else ())
        for target in targets
        if reporter in number and target in number
    ]
    return np.isin(measured.source * len(measured.nodes) + measured.target, keys)


def _warm_start(before: FittedEstimates, measured: Measurements) -> NetworkEstimates | None:
    """The previous estimates without nodes that moved: another address, zone or rack, or other delays.

    None: too many moved.
    """
    previous = _previous_indices(before.measured.nodes, before.measured.sites, measured)
    start = carry_over(before.estimates, previous, measured.pairs)
    moved = moved_nodes(start.pairs, measured.pairs)
    if not moved.any():
        return start
    if moved.mean() > MAX_MOVED_SHARE:
        return None
    return carry_over(before.estimates, np.where(moved, -1, previous), measured.pairs)


def _previous_indices(nodes: Sequence[str], sites: Sequence[tuple[str, str, str]], measured: Measurements) -> Indices:
    """The number that each node had among `nodes`, -1 if none or if its site is another one now."""
    numbers = {node: number for number, node in enumerate(nodes)}
    now = ((numbers.get(node, -1), site) for node, site in zip(measured.nodes, measured.sites, strict=True))
    return np.array([at if at >= 0 and _is_same_site(sites[at], site) else -1 for at, site in now], np.intp)


def _is_same_site(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """An unknown site, as while the node's agent is away, counts as the same."""
    return one == other or not any(one) or not any(other)
