"""What the controller does again and again: steps, each taken once a second."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct

from leadsman.kube.reflector import Reflector

INTERVAL_SECONDS = 1.0
"""A changed policy takes effect within this. A step that finds nothing to do makes no call."""

STALL_TIMEOUT_SECONDS = 120.0
"""More than a plan's patches take when the API server throttles them."""


class Step(Struct, frozen=True):
    """One thing that the leader does.

    name: in logs and in /healthz.
    act: does it.
    forget: called instead on a replica that does not lead, whose memory of the cluster will be old when it does.
    needs: act only when these have been listed.
    on_all_replicas: act on those that do not lead, too.
    """

    name: str
    act: Callable[[], Awaitable[object]]
    forget: Callable[[], None] = lambda: None
    needs: Sequence[Reflector[Any]] = ()
    on_all_replicas: bool = False

    async def take(self, is_leader: bool) -> None:
        if not is_leader and not self.on_all_replicas:
            self.forget()
        elif all(each.loaded.is_set() for each in self.needs):
            await self.act()


class StepRunner:
    """Takes each step once a second, in a loop of its own, never twice at once. What a step raises ends the process."""

    def __init__(
        self, steps: Sequence[Step], is_leader: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._steps, self._is_leader, self._clock = steps, is_leader, clock
        self._began_at: dict[str, float] = {}

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        return {step.name: self._repeat(step) for step in self._steps}

    def stalled(self) -> list[str]:
        """The steps that began long ago and have not ended."""
        now = self._clock()
        return [name for name, at in self._began_at.items() if now - at > STALL_TIMEOUT_SECONDS]

    async def _repeat(self, step: Step) -> None:
        while True:
            self._began_at[step.name] = self._clock()
            await step.take(self._is_leader())
            await asyncio.sleep(INTERVAL_SECONDS)
