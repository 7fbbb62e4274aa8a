"""Remembers which changes the API server refuses, by node and policy, so that they are tried again ever more rarely."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import PolicyKey
from leadsman.kube.errors import ApiError

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
"""Between two attempts, doubled each time."""

MAX_REFUSED = 20_000
"""Remembered; the oldest goes, and its change is tried at once. 4 MB."""

_LONGEST_REASON = 200


class _Refused(Struct, frozen=True):
    reason: str
    pause_seconds: float
    due_at: float


class RefusedChanges:
    """The refused changes.

    clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[tuple[str, PolicyKey], _Refused] = {}

    @property
    def current(self) -> Mapping[tuple[str, PolicyKey], str]:
        """Node and policy → why its changes there are not due now."""
        now = self._clock()
        self._refused = {key: one for key, one in self._refused.items() if now < one.due_at + LONGEST_PAUSE_SECONDS}
        return {key: one.reason for key, one in self._refused.items() if now < one.due_at}

    def record(self, node: str, policy: PolicyKey, error: ApiError) -> None:
        """The API server refused the policy's changes of the node."""
        before = self._refused.pop((node, policy), None)
        pause = min(2 * before.pause_seconds, LONGEST_PAUSE_SECONDS) if before else FIRST_PAUSE_SECONDS
        reason = f"refused, tried again every {pause:g} s or more: {error}"[:_LONGEST_REASON]
        self._refused[node, policy] = _Refused(reason, pause, self._clock() + pause)
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def forget(self, node: str, policy: PolicyKey) -> None:
        """The API server took the policy's changes of the node."""
        self._refused.pop((node, policy), None)
