"""Remembers what was seen of each node, because records vanish from etcd with their lease just when they are needed."""

from msgspec import Struct, structs

from leadsman.planning.failover.model import DetectionRules, Location
from leadsman.state.records import Heartbeat, Reachability
from leadsman.state.report_timing import stale_seconds
from leadsman.state.snapshot import Freshness, NodeState


class Observation(Struct, frozen=True):
    """One node, as of now.

    heartbeat: the last one seen, also when it is gone.
    moved_at: when it was last seen to change, or first seen.
    moving_since: since when it has never stood still for too long.
    is_provisional: it was only seen once, and may be of any age.
    present: it is in etcd now.
    left: the agent deleted its records itself, as it does when it is stopped in good order.
    report: which peers answer this node, by its last report; None: it has not reported for long, or never.
    written_at: when that report was first seen.
    reported_at: when it was last vouched for.
    is_current: it is vouched for now.
    """

    location: Location = Location()
    heartbeat: Heartbeat | None = None
    moved_at: float = float("-inf")
    moving_since: float = float("inf")
    is_provisional: bool = True
    present: bool = False
    left: bool = False
    report: Reachability | None = None
    written_at: float = float("-inf")
    reported_at: float = float("-inf")
    is_current: bool = False

    def stands_still(self, now: float, call_timeout_seconds: float) -> bool:
        """Whether the heartbeat has not changed for longer than two push intervals and a call."""
        return self.heartbeat is not None and now - self.moved_at > self.patience_seconds(call_timeout_seconds)

    def moves(self, now: float, call_timeout_seconds: float) -> bool:
        """Whether the heartbeat has moved for longer than one may stand still, so that it tells whether etcd works.

        When etcd comes back the agents report again one after the other, and none stands still because it is not the
        first.
        """
        has_moved_seconds = now - self.moving_since
        is_still = self.stands_still(now, call_timeout_seconds)
        return not is_still and has_moved_seconds > self.patience_seconds(call_timeout_seconds)

    def patience_seconds(self, call_timeout_seconds: float) -> float:
        """2P + T: a report and its repetition have failed."""
        interval = self.heartbeat.push_interval_seconds if self.heartbeat else 0.0
        return 2 * interval + call_timeout_seconds


_NOT_SEEN = Observation()
_NO_RECORDS = NodeState()


def observe(
    before: Observation | None, state: NodeState | None, labels: Location, rules: DetectionRules, now: float
) -> Observation:
    """The observation that follows from `before` and the node's records in etcd.

    labels: where the node is, until its agent says more.
    """
    before, state = before or _NOT_SEEN, state or _NO_RECORDS
    after = structs.replace(
        before,
        location=_location(before, state, labels),
        heartbeat=state.heartbeat or before.heartbeat,
        moved_at=_moved_at(before, state, now),
        moving_since=_moving_since(before, state, rules, now),
        is_provisional=before.is_provisional and not _has_moved(before, state),
        present=state.heartbeat is not None,
        left=_left(before, state, now),
        is_current=state.reachability is not None and state.freshness(now) is Freshness.FRESH,
    )
    if after.is_current:
        written_at = before.written_at if before.report == state.reachability else now
        return structs.replace(after, report=state.reachability, written_at=written_at, reported_at=now)
    if now - before.reported_at > rules.assignment_seconds:
        return structs.replace(after, report=None)
    return after


def _location(before: Observation, state: NodeState, labels: Location) -> Location:
    if state.identity and (state.identity.zone or state.identity.rack):
        return Location(state.identity.zone, state.identity.rack)
    return before.location if before.location != Location() else labels


def _moved_at(before: Observation, state: NodeState, now: float) -> float:
    if state.heartbeat is None:
        return before.moved_at
    if before.heartbeat is not None and not _has_moved(before, state):
        return before.moved_at
    return now if state.changed_at is None else state.changed_at


def _moving_since(before: Observation, state: NodeState, rules: DetectionRules, now: float) -> float:
    if not _has_moved(before, state):
        return before.moving_since
    is_new = before.is_provisional or before.stands_still(now, rules.call_timeout_seconds)
    return now if is_new else before.moving_since


def _has_moved(before: Observation, state: NodeState) -> bool:
    """Whether the heartbeat was seen to change, here or by the follower of the state."""
    old, new = before.heartbeat, state.heartbeat
    if new is None or old is None:
        return state.changed_at is not None
    return (old.epoch, old.seq) != (new.epoch, new.seq)


def _left(before: Observation, state: NodeState, now: float) -> bool:
    """Records that vanish while their heartbeat is young were deleted by the agent; a lease takes longer to expire."""
    if state.heartbeat is not None:
        return False
    if not before.present or before.heartbeat is None:
        return before.left
    return now - before.moved_at < stale_seconds(before.heartbeat.push_interval_seconds)
