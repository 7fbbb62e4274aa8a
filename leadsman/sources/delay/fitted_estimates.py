"""Puts a fit's estimates under nodes' names, without implausible reports, and keeps where the next fit starts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadsman.decision.inputs import DecisionInputs, EstimatedRow
from leadsman.decision.policy import Statistic
from leadsman.network.estimates import ESTIMATE_SOURCES, EstimateSource, NetworkEstimates
from leadsman.network.fitting import FitBudget, carry_over, fit_network, moved_nodes, renumber_pairs
from leadsman.network.former_pairs import FormerPairs, former_pairs
from leadsman.network.measured_pairs import MAX_RTT_MS, MIN_RTT_MS, Floats, Indices, MeasuredPairs, build_pairs
from leadsman.network.plausibility import MIN_REPORTERS, Plausibility, Reports, denied, mostly, place_by_others
from leadsman.sources.delay.goldpinger import GoldpingerView
from leadsman.state.records import PeerLatency
from leadsman.state.snapshot import Freshness, NodeState, Snapshot

# Gathers all measurements of agents and other sources as numbers for a fit.

_Measurement = tuple[str, str, float]
"""Source, target, round trip in ms."""


class Measurements(NamedTuple):
    """Holds all fresh measurements by node number.

    nodes: names in order; every other field has nodes by number.
    source, target, rtt_ms: each measurement as it was read.
    pairs: the measurements joined by pair.
    groups: racks, then zones; -1 unknown.
    sites: (address, zone, rack) of each node, "" unknown; a node whose site changes was set up again elsewhere.
    unanswered: number of fresh agents that probed each node without a reply.
    """

    nodes: tuple[str, ...]
    source: Indices
    target: Indices
    rtt_ms: Floats
    pairs: MeasuredPairs
    groups: tuple[Indices, ...]
    sites: tuple[tuple[str, str, str], ...]
    unanswered: Indices

    @property
    def reports(self) -> Reports:
        """Returns the measurements as logarithms, in the same order."""
        log_ms = np.log(np.clip(self.rtt_ms, MIN_RTT_MS, MAX_RTT_MS)).astype(np.float32)
        return Reports(len(self.nodes), self.source, self.target, log_ms, self.unanswered)

    def without(self, left_out: NDArray[np.bool_]) -> "Measurements":
        """Returns the measurements that the mask does not select, of the same nodes."""
        source, target, rtt_ms = self.source[~left_out], self.target[~left_out], self.rtt_ms[~left_out]
        pairs = _pairs(len(self.nodes), source, target, rtt_ms)
        return self._replace(source=source, target=target, rtt_ms=rtt_ms, pairs=pairs)


def gather_measurements(
    snapshot: Snapshot, now: float, statistic: Statistic, views: Sequence[GoldpingerView] = ()
) -> Measurements:
    """Gathers what fresh reports and views hold. Its nodes are those that report or that replied to a probe."""
    measurements = [each for view in views if view.fresh_until > now for each in view.measurements()]
    fresh = {node: state for node, state in snapshot.nodes.items() if state.freshness(now) is Freshness.FRESH}
    measurements += _agent_measurements(fresh, attrgetter(f"{statistic}_ms"))
    nodes = tuple(sorted(fresh.keys() | {node for source, target, _ in measurements for node in (source, target)}))
    number = {node: at for at, node in enumerate(nodes)}
    source = np.array([number[one] for one, _, _ in measurements], np.intp)
    target = np.array([number[other] for _, other, _ in measurements], np.intp)
    rtt_ms = np.array([ms for _, _, ms in measurements], float)
    identities = (fresh[node].identity if node in fresh else None for node in nodes)
    sites = tuple((each.address, each.zone, each.rack) if each else ("", "", "") for each in identities)
    racks = _numbered([(zone, rack) if rack else None for _, zone, rack in sites])  # A rack's name is within its zone.
    groups = racks, _numbered([zone or None for _, zone, _ in sites])
    pairs = _pairs(len(nodes), source, target, rtt_ms)
    return Measurements(nodes, source, target, rtt_ms, pairs, groups, sites, _count_unanswered(fresh, number))


def _pairs(nodes: int, source: Indices, target: Indices, rtt_ms: Floats) -> MeasuredPairs:
    return build_pairs(nodes, source, target, np.maximum(rtt_ms, MIN_RTT_MS))


def _agent_measurements(
    states: Mapping[str, NodeState], ms: Callable[[PeerLatency], float | None]
) -> Iterator[_Measurement]:
    for node, state in states.items():
        for peer, window in state.latency.peers.items() if state.latency else ():
            if peer != node and (rtt_ms := ms(window)) is not None:
                yield node, peer, rtt_ms


def _count_unanswered(states: Mapping[str, NodeState], number: Mapping[str, int]) -> Indices:
    counts = np.zeros(len(number), np.intp)
    for state in states.values():
        for peer, window in state.latency.peers.items() if state.latency else ():
            if window.sent and not window.received and peer in number:
                counts[number[peer]] += 1
    return counts


def _numbered(groups: Sequence[object]) -> Indices:
    number = {group: at for at, group in enumerate(dict.fromkeys(group for group in groups if group is not None))}
    return np.array([number.get(group, -1) for group in groups], np.intp)


# Which nodes report delays that others contradict, each with the sentence that pages, commands and logs show.

_MAX_LISTED = 3
"""Nodes that a sentence names. The API has all of them."""
_EVASIVE_TEXT = (
    f"fewer than {MIN_REPORTERS} of the nodes that probe it get a reply, so no delay that it alone reports counts"
)


def contradictions(
    measured: Measurements, is_implausible: NDArray[np.bool_], is_evasive: NDArray[np.bool_]
) -> Mapping[str, str]:
    """Maps each node to what it reports that others contradict: most of it, or a pair that the other end measured too.

    An honest node has an implausible report now and then, which only the estimates leave out: no sentence.
    is_evasive: of each node, as in Plausibility.
    """
    by_most = mostly(is_implausible, measured.reports)
    told = is_implausible & (by_most[measured.source] | denied(is_implausible, measured.reports))
    sentences = dict[str, str]()
    for node in np.unique(measured.source[told]).tolist():
        own = measured.source == node
        targets = [measured.nodes[target] for target in measured.target[own & told].tolist()]
        more = f" and {len(targets) - _MAX_LISTED} more" * (len(targets) > _MAX_LISTED)
        sentences[measured.nodes[node]] = (
            _EVASIVE_TEXT
            if is_evasive[node]
            else f"other nodes contradict {len(targets)} of the {np.count_nonzero(own)} delays that it reports: to "
            + ", ".join(targets[:_MAX_LISTED])
            + more
        )
    return sentences


MAX_MOVED_SHARE = 0.5
"""When a larger share of the nodes has moved or joined, the positions of the others are no good start either."""

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
    """Gives a fit's estimates as an EstimateView of leadsman.decision.inputs; none is below what is plausible for its
    pair.

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
        """Maps each node to its number in the fit."""
        return {node: number for number, node in enumerate(self.measured.nodes)}

    def row(self, reference: str) -> EstimatedRow:
        """Returns the estimates from one node to all others; EstimatedRow() for a node that is not in the fit."""
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
    the start. A reporter most of whose reports turn out implausible may have moved others, so everything is fitted
    again without such reporters; single reports move nobody.

    before: the fit to start from.
    budget: None: as many steps as improve it, seconds at any size.
    """
    suspected, reports = _suspected(before, measured), measured.reports
    start = None if before is None else _warm_start(before, measured.without(suspected))
    if start is None:
        suspected[:] = False
    trusted = measured.without(suspected)
    remembered = () if before is None else before.remembered
    for is_last in (False, True):
        former = _former_pairs(remembered, trusted)
        estimates = fit_network(trusted.pairs, np.random.default_rng(SEED), measured.groups, start, budget, former)
        plausibility = place_by_others(estimates.model.members, reports)
        implausible = plausibility.implausible(reports)
        trusted, discredited = measured.without(implausible), mostly(implausible & ~suspected, reports)
        if is_last or not discredited.any():
            break
        previous = np.where(discredited, -1, np.arange(len(measured.nodes)))
        start = carry_over(estimates, previous, trusted.pairs)._replace(drift=1.0)
    levels = tuple(level.without_mistrusted(trusted.reports) for level in estimates.group_medians)
    estimates = estimates._replace(pairs=trusted.pairs, is_measured=trusted.pairs.degree > 0, group_medians=levels)
    return FittedEstimates(measured, implausible, estimates, plausibility, made_at, remembered)


def _remember(remembered: Sequence[RememberedSet], trusted: Measurements, now: float) -> Sequence[RememberedSet]:
    """Adds what is trusted now when the newest set is old enough, and leaves out what is too old."""
    young = [each for each in remembered if now - each.read_at <= MAX_REMEMBERED_SECONDS]
    if young and now - young[0].read_at < REMEMBER_EVERY_SECONDS:
        return young
    return [RememberedSet(trusted.nodes, trusted.sites, trusted.pairs, now), *young][:MAX_REMEMBERED_SETS]


def _former_pairs(remembered: Sequence[RememberedSet], measured: Measurements) -> FormerPairs:
    """Returns the remembered pairs that are not measured now, of nodes that stayed where they were."""
    earlier = []
    for each in remembered:
        pairs = renumber_pairs(each.pairs, _previous_indices(each.nodes, each.sites, measured))
        moved = moved_nodes(pairs, measured.pairs)
        earlier.append(pairs.where(~moved[pairs.first] & ~moved[pairs.second]))
    return former_pairs(earlier, measured.pairs)


def _suspected(before: FittedEstimates | None, measured: Measurements) -> NDArray[np.bool_]:
    """Returns the reports of pairs whose report the fit before left out."""
    number = {node: at for at, node in enumerate(measured.nodes)} if before and before.implausible else {}
    keys = [
        number[reporter] * len(measured.nodes) + number[target]
        for reporter, targets in (before.implausible.items() if before else ())
        for target in targets
        if reporter in number and target in number
    ]
    return np.isin(measured.source * len(measured.nodes) + measured.target, keys)


def _warm_start(before: FittedEstimates, measured: Measurements) -> NetworkEstimates | None:
    """Returns the previous estimates without nodes that moved: another address, zone or rack, or other delays.

    None: too many moved or joined.
    """
    previous = _previous_indices(before.measured.nodes, before.measured.sites, measured)
    previous[moved_nodes(renumber_pairs(before.estimates.pairs, previous), measured.pairs)] = -1
    if (previous < 0).mean() > MAX_MOVED_SHARE:
        return None
    return carry_over(before.estimates, previous, measured.pairs)


def _previous_indices(nodes: Sequence[str], sites: Sequence[tuple[str, str, str]], measured: Measurements) -> Indices:
    """Returns the number that each node had among `nodes`, -1 if none or if its site is another one now."""
    numbers = {node: number for number, node in enumerate(nodes)}
    now = ((numbers.get(node, -1), site) for node, site in zip(measured.nodes, measured.sites, strict=True))
    return np.array([at if at >= 0 and _is_same_site(sites[at], site) else -1 for at, site in now], np.intp)


def _is_same_site(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """An unknown site, as while the node's agent is away, counts as the same."""
    return one == other or not any(one) or not any(other)


# Estimates to the delays of one moment, for plans: most need none, and a fit takes seconds for thousands of nodes.


class EstimatesOnDemand:
    """Fits estimates when the first row is asked for, as an EstimateView of leadsman.decision.inputs.

    inputs: whose agents' and Goldpinger's delays it is fitted to, as the extender's first fit is.
    """

    def __init__(self, inputs: DecisionInputs) -> None:
        self._inputs, self.made_at = inputs, inputs.now

    def row(self, reference: str) -> EstimatedRow:
        """Returns the estimates from one node to all others; EstimatedRow() where nothing is known of it."""
        return self._fitted.row(reference) if self._fitted else EstimatedRow()

    @cached_property
    def _fitted(self) -> FittedEstimates | None:
        """Fits a model. None: nothing fresh was measured."""
        inputs = self._inputs
        views = [view for view in inputs.delay_views if isinstance(view, GoldpingerView)]
        measured = gather_measurements(inputs.snapshot, inputs.now, inputs.policy.delay.statistic, views)
        return fit_estimates(measured, inputs.now) if len(measured.pairs.log_ms) else None
