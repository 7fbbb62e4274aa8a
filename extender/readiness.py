"""When a replica takes its share of the requests: once its view is there, or is known not to come."""

import logging
from collections.abc import Mapping

from leadsman.runtime.http_server import Health
from leadsman.sources.source import ListedSource

FAILED_LISTING_GRACE_SECONDS = 15.0
"""From start, after which a source whose listing fails is not waited for. Room for two attempts at their slowest (3 s
for a call that hangs, a pause of 4 s), and as long as reports count: a replica that runs is neutral too by then."""

SLOW_LISTING_GRACE_SECONDS = 120.0
"""From start, after which nothing is waited for. 5,000 nodes are listed from etcd in 1 s; a rollout that makes no
progress for 600 s has failed (progressDeadlineSeconds)."""

log = logging.getLogger(__name__)


class Readiness:
    """Whether this replica is ready, for /readyz.

    sources: what is shown of it → the source.
    started_at: monotonic seconds.

    A replica that has become ready stays ready: without a source its answers are neutral, not wrong, and if all
    replicas lost etcd and were not ready, kube-scheduler would have nobody to ask.
    """

    def __init__(self, sources: Mapping[str, ListedSource], started_at: float) -> None:
        self._sources, self._started_at = sources, started_at
        self._is_ready = False

    def check(self, now: float) -> Health:
        """Ready once nothing is waited for. The text names what is not listed."""
        missing = {name: one.problem.text for name, one in self._sources.items() if not one.loaded.is_set()}
        waits = any(_is_waited_for(problem, now - self._started_at) for problem in missing.values())
        listed = "; ".join(f"{name} ({problem or 'no error so far'})" for name, problem in missing.items())
        if waits and not self._is_ready:
            return Health(False, f"waits for the first listing of {listed}")
        if missing and not self._is_ready:
            log.warning("this replica is ready and decides without what could not be listed yet: %s", listed)
        self._is_ready = True
        return Health(True, f"ok; decides without what could not be listed yet: {listed}" if missing else "ok")


def _is_waited_for(problem: str, age_seconds: float) -> bool:
    return age_seconds < (FAILED_LISTING_GRACE_SECONDS if problem else SLOW_LISTING_GRACE_SECONDS)
