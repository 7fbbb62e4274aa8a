"""Fits delay estimates to all measurements and groups nodes by delay, in the background.

The work runs on a thread: numpy releases the interpreter often enough that a request beside a fit of 5,000 nodes takes
no longer (docs/delays.md), and memory is shared. It is done when enough has changed, and at most a tenth of the time.
A round that fails is counted; the previous estimates stay in use and age.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from leadsman.decision.policy import Policy, Statistic
from leadsman.network.estimates import NetworkEstimates
from leadsman.network.fitting import FitBudget, changed_share
from leadsman.network.layers import Layer, build_layer
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay.fitted_estimates import FittedEstimates, Measurements, fit_estimates, gather_measurements
from leadsman.sources.delay.goldpinger import GoldpingerView
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.sources.source import Source
from leadsman.state.snapshot import Snapshot

# Groups nodes by delay, under their names, with leadsman.network.layers.
#
# A pair counts with the slower of its directions: as our agents or Goldpinger measured it, else as the static matrix
# has it, else with the upper end of its estimate. Two nodes without any of these are never in one group.

MAX_NODES = 5_000
"""Above, no groups are made: their matrix of delays takes 100 MB here, up to three times that while groups are made."""


class DelayGroups(Struct, frozen=True, eq=False):
    """Groups of nodes that are near each other, one set of groups for each layer.

    nodes: in order; layers have them by number.
    made_at: monotonic seconds.
    """

    nodes: tuple[str, ...]
    layers: tuple[Layer, ...]
    made_at: float

    def named(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """Maps each layer, as "5 ms", to its groups of two nodes or more, the largest first."""
        layers = {layer_title(each.limit_ms): list(map(self._names, each.groups)) for each in self.layers}
        return {
            title: sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), group))
            for title, groups in layers.items()
        }

    def among(self, nodes: Collection[str]) -> Mapping[str, Sequence[Sequence[str]]]:
        """Maps each layer to its groups among these nodes; a node alone among them is a group of one."""
        selected = set(nodes)
        return {
            layer_title(layer.limit_ms): sorted(
                filter(None, ([n for n in self._names(g) if n in selected] for g in layer.groups))
            )
            for layer in self.layers
        }

    def _names(self, group: Indices) -> list[str]:
        return [self.nodes[number] for number in group.tolist()]


def layer_title(limit_ms: float) -> str:
    """Names a layer as pages do: "5 ms"."""
    return f"{limit_ms:g} ms"


def group_nodes(
    measured: Measurements,
    estimates: NetworkEstimates | None,
    matrices: Sequence[DelayMatrix],
    limits_ms: Sequence[float],
    made_at: float,
    before: DelayGroups | None = None,
) -> DelayGroups:
    """Groups nodes by delay, in one layer for each limit.

    estimates: by the numbers of `measured`.
    before: its groups stay where they still hold.
    """
    nodes = tuple(sorted(set(measured.nodes).union(*(matrix.nodes for matrix in matrices))))
    if not limits_ms or len(nodes) > MAX_NODES:
        return DelayGroups((), (), made_at)
    delay_ms = _delay_square(nodes, measured, estimates, matrices)
    layers = (_layer(delay_ms, limit, _previous_groups(before, nodes, limit)) for limit in sorted(set(limits_ms)))
    return DelayGroups(nodes, tuple(layers), made_at)


def _layer(delay_ms: Floats, limit_ms: float, before: Sequence[int]) -> Layer:
    """The limit is rounded down to the delays' precision, as they were rounded up, so that no rounding hides a
    violation."""
    limit = np.float32(limit_ms)
    down = limit if float(limit) <= limit_ms else np.nextafter(limit, np.float32(-1))
    return build_layer(delay_ms, float(down), np.array(before, np.intp))._replace(limit_ms=limit_ms)


def _previous_groups(before: DelayGroups | None, nodes: Sequence[str], limit_ms: float) -> list[int]:
    layer = next((layer for layer in before.layers if layer.limit_ms == limit_ms), None) if before else None
    group = dict(zip(before.nodes, layer.group_of.tolist(), strict=True)) if before and layer else {}
    return [group.get(node, -1) for node in nodes]


def _delay_square(
    nodes: Sequence[str], measured: Measurements, estimates: NetworkEstimates | None, matrices: Sequence[DelayMatrix]
) -> Floats:
    """Makes a matrix, square and symmetric, NaN where there is no value. A value that is filled in later replaces an
    earlier one."""
    number = {node: at for at, node in enumerate(nodes)}
    own = np.array([number[node] for node in measured.nodes], np.intp)
    delay_ms = _estimated(len(nodes), own, estimates)
    for matrix in reversed(matrices):
        rows, of = np.array([(number[node], row) for node, row in matrix.rows.items()], np.intp).T
        delay_ms[np.ix_(rows, rows)] = _round_up(np.maximum(matrix.rtt_ms, matrix.rtt_ms.T)[np.ix_(of, of)])
    source, target = own[measured.source], own[measured.target]
    one, other = np.concatenate([source, target]), np.concatenate([target, source])
    delay_ms[one, other] = 0
    np.maximum.at(delay_ms, (one, other), np.tile(_round_up(measured.rtt_ms), 2))
    np.fill_diagonal(delay_ms, 0)
    return delay_ms


def _estimated(nodes: int, own: Indices, estimates: NetworkEstimates | None) -> Floats:
    delay_ms = np.full((nodes, nodes), np.nan, np.float32)
    if estimates is not None:
        for row, at in enumerate(own):
            delay_ms[at, own] = estimates.row(row).high_ms
    return np.maximum(delay_ms, delay_ms.T, out=delay_ms)


def _round_up(rtt_ms: Floats) -> Floats:
    """Returns the value in single precision, never less than given."""
    rounded = rtt_ms.astype(np.float32)
    return np.where(rounded < rtt_ms, np.nextafter(rounded, np.float32(np.inf)), rounded)


log = logging.getLogger(__name__)


MIN_PAUSE_SECONDS = 10.0
"""Two rounds are at least this far apart."""

PAUSE_RATIO = 10.0
"""The pause is at least this many times as long as the last round took."""

MIN_CHANGED_SHARE = 0.02
"""Estimates are fitted again once so many of the pairs came, went or moved, or when a node joins or leaves."""

MAX_INTERVAL_SECONDS = 120.0
"""A fit is made after this even when nothing changed, so that estimates stay as young as the measurements."""


class FitRound(NamedTuple):
    """Remembers what a round of fitting worked on and what came out.

    estimates: None when they are switched off or nothing was ever measured.
    """

    statistic: Statistic
    layers_ms: tuple[float, ...]
    matrices: tuple[DelayMatrix, ...]
    measured: Measurements
    estimates: FittedEstimates | None
    groups: DelayGroups


class Estimator:
    """Keeps estimates and groups up to date. `run` it as one task.

    budget: of a fit (leadsman.network.fitting).
    current: the estimates; None before the first fit.
    groups: None before the first round.
    problem: why the last round failed.
    fits, failures: rounds that fitted and rounds that failed.
    fit_seconds: how long the last fit took.
    """

    def __init__(
        self,
        state: Source[Snapshot],
        policy: Source[Policy],
        measurement_sources: Sequence[Source[GoldpingerView | None]] = (),
        matrices: Sequence[Source[DelayMatrix]] = (),
        *,
        estimates: bool = True,
        initial_layers_ms: Sequence[float] = (),
        budget: FitBudget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current: FittedEstimates | None = None
        self.groups: DelayGroups | None = None
        self.fits, self.failures, self.fit_seconds = 0, 0, 0.0
        self.problem = ProblemLog(
            log,
            "delay estimates were not refitted; the previous ones stay in use",
            "delay estimates are fitted again",
            logging.ERROR,
        )

        self._state, self._policy = state, policy
        self._measurement_sources, self._matrices = measurement_sources, matrices
        self._estimates, self._layers_ms, self._clock = estimates, initial_layers_ms, clock
        self._budget = budget
        self._last_round: FitRound | None = None

    async def run(self) -> None:
        """Makes rounds until cancelled; the thread of a round under way is not waited for."""
        while True:
            began = self._clock()
            await self.run_once()
            took = self._clock() - began
            await asyncio.sleep(max(MIN_PAUSE_SECONDS, PAUSE_RATIO * took))

    async def run_once(self) -> None:
        """Makes one round if enough has changed. Never raises: `problem` says what was wrong."""
        # Read here: the thread that computes must not see a source change half-way.
        policy, now = self._policy.current, self._clock()
        snapshot, statistic = self._state.current, policy.delay.statistic
        views = tuple(view for source in self._measurement_sources if (view := source.current) is not None)
        matrices = tuple(source.current for source in self._matrices)
        layers_ms = policy.initial_layers or tuple(self._layers_ms)

        def compute() -> FitRound | None:
            measured = gather_measurements(snapshot, now, statistic, views)
            return self._round(measured, statistic, layers_ms, matrices, now)

        try:
            made = await run_in_daemon_thread(compute, "leadsman-estimates")
        except Exception as error:  # Whatever a fit stumbles over must not end the extender.
            self.failures += 1
            self.problem.report(error, traceback=True)
            return
        self.problem.clear()
        if made is not None:
            if made.estimates is not self.current:
                self.fits, self.fit_seconds = self.fits + 1, self._clock() - now
            self._last_round, self.current, self.groups = made, made.estimates, made.groups

    def _round(
        self,
        measured: Measurements,
        statistic: Statistic,
        layers_ms: tuple[float, ...],
        matrices: tuple[DelayMatrix, ...],
        now: float,
    ) -> FitRound | None:
        """Runs on the thread. None: too little has changed since the last round."""
        before = self._last_round
        if (
            before is not None
            and (before.statistic, before.layers_ms, before.matrices) == (statistic, layers_ms, matrices)
            and (before.measured.nodes, before.measured.sites) == (measured.nodes, measured.sites)
            and now - before.groups.made_at < MAX_INTERVAL_SECONDS
            and changed_share(before.measured.pairs, measured.pairs) <= MIN_CHANGED_SHARE
        ):
            return None
        estimates, trusted, fitted = before.estimates if before else None, measured, None
        # Without a fresh measurement the estimates before stay and age, and the next fit starts from them.
        if self._estimates and len(measured.pairs.log_ms):
            estimates = fit_estimates(measured, now, estimates, self._budget)
            trusted, fitted = estimates.trusted, estimates.estimates
        groups = group_nodes(trusted, fitted, matrices, layers_ms, now, before.groups if before else None)
        return FitRound(statistic, layers_ms, matrices, measured, estimates, groups)
