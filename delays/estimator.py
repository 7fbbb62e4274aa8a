"""Fits estimates to all that is measured, and groups nodes by delay, again and again beside the requests.

The work runs on a thread: numpy lets go of the interpreter often enough that a request beside a fit of 5,000 nodes
takes no longer (docs/delays.md), and memory is shared. It is done when enough has changed and at most a tenth of the
time. A round that fails is counted, and what was there before stays, with its age.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from clusterstate.snapshot import Snapshot
from decision.policy import Policy, Statistic
from delays.background import apart
from delays.fitted import Fitted, fitted
from delays.groups import Groups, grouped
from delays.matrix import Matrix
from delays.measured import Measured, Measuring, gather
from topology.fit import Effort
from topology.warm import changed

log = logging.getLogger(__name__)


class Pace(NamedTuple):
    """rest_seconds: between two rounds at least, and `rest_ratio` times what the last one took, if that is longer.
    changed_ratio: share of pairs that came, went or moved, from which on a fit is made anew; any node that joins or
    leaves is enough, too. longest_seconds: even when nothing changed, as the age of estimates says what they rest on.
    """

    rest_seconds: float = 10.0
    rest_ratio: float = 10.0
    changed_ratio: float = 0.02
    longest_seconds: float = 120.0


class StateSource(Protocol):
    @property
    def current(self) -> Snapshot: ...


class PolicySource(Protocol):
    @property
    def current(self) -> Policy: ...


class MeasuringSource(Protocol):
    """Goldpinger. None: nothing was read yet."""

    @property
    def current(self) -> Measuring | None: ...


class MatrixSource(Protocol):
    @property
    def current(self) -> Matrix: ...


class Inputs(NamedTuple):
    """What is known at one moment, and what is asked of it."""

    snapshot: Snapshot
    statistic: Statistic
    layers_ms: tuple[float, ...]
    views: tuple[Measuring, ...]
    matrices: tuple[Matrix, ...]
    now: float

    def asks_the_same(self, other: "Inputs") -> bool:
        return self.statistic == other.statistic and self.layers_ms == other.layers_ms


class Round(NamedTuple):
    """What a round found. estimates: None when they are switched off or nothing was ever measured. fitted: whether they
    are new."""

    inputs: Inputs
    measured: Measured
    estimates: Fitted | None
    groups: Groups
    fitted: bool


class Estimator:
    """`run` it as one task. current: None before the first fit; groups: None before the first round.

    spend: as of topology.fit. For metrics: fit_seconds of the last fit, fits, failures; problem is "" unless the last
    round failed.
    """

    def __init__(
        self,
        state: StateSource,
        policy: PolicySource,
        measuring: Sequence[MeasuringSource] = (),
        matrices: Sequence[MatrixSource] = (),
        *,
        estimates: bool = True,
        initial_layers_ms: Sequence[float] = (),
        pace: Pace = Pace(),  # noqa: B008 -- immutable
        spend: Effort | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current: Fitted | None = None
        self.groups: Groups | None = None
        self.fits, self.failures, self.fit_seconds, self.problem = 0, 0, 0.0, ""
        self._state, self._policy, self._measuring, self._matrices = state, policy, measuring, matrices
        self._estimates, self._layers_ms, self._pace, self._clock = estimates, initial_layers_ms, pace, clock
        self._spend = spend
        self._before: Round | None = None

    async def run(self) -> None:
        """Rounds until cancelled; one that is under way is left behind."""
        while True:
            began = self._clock()
            await self.round()
            took = self._clock() - began
            await asyncio.sleep(max(self._pace.rest_seconds, self._pace.rest_ratio * took))

    async def round(self) -> None:
        """Looks once whether enough has changed, and if so works. Never raises: `problem` says what was wrong."""
        inputs, began = self._inputs(), self._clock()
        try:
            found = await apart(lambda: self._worked(inputs), "leadsman-estimates")
        except Exception as error:  # Whatever a fit stumbles over must not end the extender.
            self._failed(error)
            return
        self.problem = ""
        if found.fitted:
            self.fits, self.fit_seconds = self.fits + 1, self._clock() - began
        self._before, self.current, self.groups = found, found.estimates, found.groups

    def _inputs(self) -> Inputs:
        policy, now = self._policy.current, self._clock()
        views = tuple(view for source in self._measuring if (view := source.current) is not None)
        matrices = tuple(source.current for source in self._matrices)
        layers_ms = policy.initial_layers or tuple(self._layers_ms)
        return Inputs(self._state.current, policy.delay.statistic, layers_ms, views, matrices, now)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        problem = f"{type(error).__name__}: {error}"
        if problem != self.problem:
            log.error("no new estimates, those before stay: %s", problem, exc_info=error)
        self.problem = problem

    def _worked(self, inputs: Inputs) -> Round:
        """On the thread."""
        measured = gather(inputs.snapshot, inputs.now, inputs.statistic, inputs.views)
        before = self._before
        if before and not self._due(before, measured, inputs):
            return before._replace(fitted=False)
        estimates = self._fitted(measured, inputs.now, before.estimates if before else None)
        fresh = estimates is not None and estimates.measured is measured
        groups = grouped(
            measured,
            estimates.estimates if fresh and estimates else None,
            inputs.matrices,
            inputs.layers_ms,
            inputs.now,
            before.groups if before else None,
        )
        return Round(inputs, measured, estimates, groups, fresh)

    def _fitted(self, measured: Measured, now: float, before: Fitted | None) -> Fitted | None:
        """Those before, when nothing fresh is left to fit: they age, and the next fit goes on from them."""
        if not self._estimates or not len(measured.pairs.log_ms):
            return before
        return fitted(measured, now, before, self._spend)

    def _due(self, before: Round, measured: Measured, inputs: Inputs) -> bool:
        return (
            before.measured.nodes != measured.nodes
            or before.measured.places != measured.places
            or before.inputs.matrices != inputs.matrices
            or not before.inputs.asks_the_same(inputs)
            or inputs.now - before.groups.made_at >= self._pace.longest_seconds
            or changed(before.measured.pairs, measured.pairs) > self._pace.changed_ratio
        )
