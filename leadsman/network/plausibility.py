"""Finds reports that disagree with what all other nodes report.

A node could say anything of itself. So each node is placed a second time, by what the others report of it and never by
its own reports, and a report is compared with the distance of both ends so placed. How far honest reports are off
differs between networks, so it is counted: nine of ten reporters have no report beyond the limits. What one node
reports, however much it is, moves a limit by no more than one reporter in all. By the same count one reporter in ten
has a report beyond a limit when all are honest. So a single one is left out and says nothing of its reporter: a node is
contradicted when most of its reports are beyond a limit, or when the other end of one measured the pair and denies it.

One of many reporters hardly moves a place; one of three does. So a node that few measured is placed once more without
each of them, and what counts between it and another is the least: what a single reporter adds makes it no farther.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadsman.network.embedding import DescentSchedule, EnsembleMember, descend, mean_and_spread
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs

MIN_REPORTERS = 3
"""This many reporters must have measured a node, so that one of them cannot place it alone."""
ENOUGH_TO_JUDGE = 8
"""Reporters of both ends of a pair, for a report on it to be left out of estimates. With fewer, places of honest nodes
are off by 1.3 to 1.9 times the honest spread (9 in 10 links), with one liar among them by up to 3.8 times."""
WITHIN_LIMITS_SHARE = 0.9
"""This share of the reporters has no report beyond a limit. More than a tenth of all nodes in collusion move the
limits."""
_MIN_LIMIT, _LIMIT_OF_FEW = np.log(1.25), np.log(2.0)
"""Limits of log(report / estimate): the least, and the one while fewer than _ENOUGH_REPORTERS reported a pair alone."""
_ENOUGH_REPORTERS = 10
_MEMBERS = 4
_PLACING = DescentSchedule(80, 0.2, 0.5)


class Reports(NamedTuple):
    """Holds every measurement as it was read, those of a pair's two ends apart.

    reporter, target: node numbers, never the same.
    unanswered: number of the others that probed each node without a reply.
    """

    node_count: int
    reporter: Indices
    target: Indices
    log_ms: Floats
    unanswered: Indices

    @property
    def reporters(self) -> Indices:
        """Returns how many others measured each node."""
        return np.bincount(self.target, minlength=self.node_count)

    @property
    def nearest_reporter(self) -> Indices:
        """Returns who measured the least to each node; the node itself where nobody did."""
        nearest, farthest_first = np.arange(self.node_count), np.argsort(-self.log_ms, kind="stable")
        nearest[self.target[farthest_first]] = self.reporter[farthest_first]
        return nearest

    def by_other_end(self) -> Floats:
        """Returns for each report what its target measured to the reporter; NaN where it did not."""
        return self.at_other_end(self.log_ms)

    def at_other_end(self, values: Floats) -> Floats:
        """Returns for each report the value of its target's report of the reporter; NaN where there is none."""
        key, mirrored = (self.reporter * self.node_count + self.target, self.target * self.node_count + self.reporter)
        if not len(key):
            return values
        order = np.argsort(key)
        slot = order[np.minimum(np.searchsorted(key, mirrored, sorter=order), len(key) - 1)]
        return np.where(key[slot] == mirrored, values[slot], np.nan)


class Plausibility(NamedTuple):
    """Places the nodes by the reports of others.

    members: of an ensemble. After the nodes come the places of those that few measured, without one reporter each.
    placed_without: the node of each of these.
    is_placed: whether at least MIN_REPORTERS measured the node; of a pair with another one nothing can be told.
    is_judged: whether at least ENOUGH_TO_JUDGE did.
    is_evasive: whether fewer than MIN_REPORTERS did and as many probed it without a reply: what it alone reports is not
        believed.
    lowest, highest: limits of log(report / estimate).
    """

    members: tuple[EnsembleMember, ...]
    placed_without: Indices
    is_placed: NDArray[np.bool_]
    is_judged: NDArray[np.bool_]
    is_evasive: NDArray[np.bool_]
    lowest: float
    highest: float

    def row(self, one: int) -> tuple[Floats, Floats]:
        """Returns the round trip between `one` and every node by what others report, and the least plausible one, in
        ms; 0 where nothing can be told, infinite where nothing that only one end reports is believed."""
        nodes = len(self.is_placed)
        places = [one, *(nodes + np.flatnonzero(self.placed_without == one)).tolist()]
        rows = [mean_and_spread(self.members, np.array([each]), slice(None))[0] for each in places]
        least = np.min(rows, axis=0)
        log_ms = least[:nodes].copy()
        np.minimum.at(log_ms, self.placed_without, least[nodes:])
        expected_ms = np.where(self.is_placed & self.is_placed[one], np.exp(log_ms), 0)
        expected_ms = np.where(self.is_evasive | self.is_evasive[one], np.inf, expected_ms)
        return expected_ms, expected_ms * np.exp(self.lowest)

    def implausible(self, reports: Reports) -> NDArray[np.bool_]:
        """Selects reports beyond a limit that the other end does not confirm, and those of evasive nodes."""
        error, other = _error(self.members, reports), reports.by_other_end()
        low = (error < self.lowest) & ~(reports.log_ms >= other + self.lowest)
        high = (error > self.highest) & ~(reports.log_ms <= other + self.highest)
        judged = self.is_judged[reports.reporter] & self.is_judged[reports.target]
        found: NDArray[np.bool_] = (judged & (low | high)) | (self.is_evasive[reports.reporter] & np.isnan(other))
        return found


def mostly(selected: NDArray[np.bool_], reports: Reports) -> NDArray[np.bool_]:
    """Tells of which nodes more than half of the reports are selected."""
    of, out_of = (
        np.bincount(each, minlength=reports.node_count) for each in (reports.reporter[selected], reports.reporter)
    )
    return np.asarray(2 * of > out_of)


def denied(implausible: NDArray[np.bool_], reports: Reports) -> NDArray[np.bool_]:
    """Selects implausible reports of pairs that the other end measured too: it says otherwise, and is plausible."""
    found: NDArray[np.bool_] = implausible & (reports.at_other_end(implausible.astype(float)) == 0)
    return found


def place_by_others(members: tuple[EnsembleMember, ...], reports: Reports) -> Plausibility:
    """Places every node by what the others report of it. members: fitted to all reports."""
    repeated, placed_without = _without_one_each(reports)
    placed = tuple(_placed(member, repeated) for member in members[:_MEMBERS])
    is_placed, is_judged = (reports.reporters >= most for most in (MIN_REPORTERS, ENOUGH_TO_JUDGE))
    is_evasive = ~is_placed & (reports.unanswered >= MIN_REPORTERS)
    alone = np.isnan(reports.by_other_end()) & is_placed[reports.reporter] & is_placed[reports.target]
    error, reporter = _error(placed, reports)[alone], reports.reporter[alone]
    lowest, highest = (_limit(each, reporter) for each in (-error, error))
    return Plausibility(placed, placed_without, is_placed, is_judged, is_evasive, -lowest, highest)


def _without_one_each(reports: Reports) -> tuple[Reports, Indices]:
    """Returns the reports, and after them those of each node that few measured, once without each of its reporters,
    under a number of its own; and the nodes of these numbers."""
    few = np.flatnonzero((reports.reporters >= MIN_REPORTERS) & (reports.reporters < ENOUGH_TO_JUDGE))
    repeated, target, nodes = [np.arange(len(reports.target))], [reports.target], list[int]()
    for node in few.tolist():
        of_node = np.flatnonzero(reports.target == node)
        for left_out in of_node.tolist():
            others = of_node[of_node != left_out]
            repeated.append(others)
            target.append(np.full(len(others), reports.node_count + len(nodes), np.intp))
            nodes.append(node)
    at = np.concatenate(repeated)
    count = reports.node_count + len(nodes)
    all_of_them = Reports(count, reports.reporter[at], np.concatenate(target), reports.log_ms[at], np.zeros(0, np.intp))
    return all_of_them, np.array(nodes, np.intp)


def _placed(member: EnsembleMember, reports: Reports) -> EnsembleMember:
    """Each number of `reports` starts at its nearest reporter and moves; the nodes of `member` report and stay."""
    nodes, nearest = reports.node_count, reports.nearest_reporter
    points = np.hstack([member.points[:, nearest], member.points])
    twice = member._replace(points=points, heights=np.append(member.heights[nearest], member.heights))
    unknown = np.full(len(reports.log_ms), np.nan, np.float32)
    pairs = MeasuredPairs(points.shape[1], reports.target, nodes + reports.reporter, reports.log_ms, unknown)
    moved = descend(twice, pairs, _PLACING, moving=nodes)
    return moved._replace(points=moved.points[:, :nodes].copy(), heights=moved.heights[:nodes].copy())


def _error(members: tuple[EnsembleMember, ...], reports: Reports) -> Floats:
    return reports.log_ms - mean_and_spread(members, reports.reporter, reports.target)[0]


def _limit(error: Floats, reporter: Indices) -> float:
    """Above the largest error of each of so many reporters; one of them never sets it alone."""
    order = np.argsort(reporter, kind="stable")
    begins = np.flatnonzero(np.diff(reporter[order], prepend=-1))
    if len(begins) < _ENOUGH_REPORTERS:
        return float(_LIMIT_OF_FEW)
    largest = np.maximum.reduceat(error[order], begins)
    return float(max(_MIN_LIMIT, np.quantile(largest, WITHIN_LIMITS_SHARE, method="lower")))
