"""The node's ledger turns incidents, healthy time and observations of pods into a reward for each type of pod. Pure.

Two things make it exact. A total that was counted is written in the same transaction as the reward that it changed, and
health is credited by age, which grows with time only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, structs

from agent.pods import incidents
from agent.pods.incidents import (
    READY_MARK,
    START_MARK,
    Incident,
    all_containers,
    exit_count,
    find_incidents,
    is_healthy,
    is_never_ready,
    is_starting,
    run_seconds,
)
from leadsman.kube.names import MIRROR_POD_KEY
from leadsman.kube.objects import Event, Pod, pod_owner
from leadsman.rewards import reward_updates
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.rewards.pod_types import pod_type
from leadsman.state import keys
from leadsman.state.keys import is_pod_type
from leadsman.state.records import LARGEST_VALUE_BYTES, CountedTotalsShard, Reward, record_size_bytes

# How many incidents of each pod were counted: (pod's UID, mark) → total.
#
# The totals are kept in etcd beside the rewards, so that nothing is counted twice. Pods that nothing happened to are
# not in them, so they grow with the problems, not with the pods. Each pod belongs to one of 16 shards by its UID, and
# a write names the changed shards only.


class CountedTotals:
    """Holds how often each kind of incident was counted, for all pods. changed_shards: altered since they were last
    removed from this set."""

    def __init__(self, restored: Iterable[CountedTotalsShard] = ()) -> None:
        self._pods: dict[str, dict[str, int]] = {}
        for record in restored:
            self._pods |= {uid: dict(totals) for uid, totals in record.pods.items()}
        self.changed_shards: set[str] = set()

    def __len__(self) -> int:
        return len(self._pods)

    def totals(self, uid: str) -> Mapping[str, int]:
        return self._pods.get(uid, {})

    def uncounted(self, uid: str, mark: str, total: int) -> int:
        """Says how many of `total` were not counted yet."""
        return max(0, total - self._pods.get(uid, {}).get(mark, 0))

    def record(self, uid: str, mark: str, total: int) -> None:
        """Notes that all of `total` are counted."""
        if self.uncounted(uid, mark, total):
            self._pods.setdefault(uid, {})[mark] = total
            self.changed_shards.add(keys.counted_shard(uid))

    def lower(self, uid: str, mark: str, total: int) -> None:
        """The kubelet counts from `total` again: what it counts from there on is new."""
        self._pods[uid][mark] = total
        self.changed_shards.add(keys.counted_shard(uid))

    def forget(self, uid: str) -> None:
        """The pod is gone for good: UIDs do not come back."""
        if self._pods.pop(uid, None) is not None:
            self.changed_shards.add(keys.counted_shard(uid))

    def keep_only(self, uids: Iterable[str]) -> None:
        for uid in self._pods.keys() - set(uids):
            self.forget(uid)

    def shard_record(self, shard: str) -> CountedTotalsShard:
        """Returns the shard as it is written: at most 4 KiB, which holds about 60 troubled pods.

        Of more pods, those noted first are left out. The next agent may count their incidents again.
        """
        pods = {uid: totals for uid, totals in self._pods.items() if keys.counted_shard(uid) == shard}
        record = CountedTotalsShard(pods)
        while record_size_bytes(record) > LARGEST_VALUE_BYTES:
            del record.pods[next(iter(record.pods))]
        return record


# How long each pod has been healthy, and how long it has been starting.
#
# A pod's health is as old as the container that was started last. A restart begins a new health. Time in which the
# pod is not ready counts for nothing, and its health goes on afterwards.


class PodHealth(Struct):
    """Follows one pod's health.

    pod: its present state.
    type: of the pod.
    age_seconds: health that was credited.
    healthy_since, starting_since, unready_since: monotonic seconds; None while it is not healthy, not starting, or not
        one that runs and was never ready.
    """

    pod: Pod
    type: str
    age_seconds: float = 0.0
    healthy_since: float | None = None
    starting_since: float | None = None
    unready_since: float | None = None

    def update(self, pod: Pod, now: float) -> None:
        """Takes the pod's present state. Health since the last credit is lost when it is no longer healthy: nobody saw
        when that began."""
        if _has_restarted(self.pod, pod):
            self.age_seconds, self.healthy_since = 0.0, None
        self.pod = pod
        self.healthy_since = _since(self.healthy_since, is_healthy(pod), now)
        self.starting_since = _since(self.starting_since, is_starting(pod), now)
        self.unready_since = _since(self.unready_since, is_never_ready(pod), now)

    def advance(self, now: float) -> tuple[float, float]:
        """Returns the age of its health in seconds, at the last call and now."""
        before = self.age_seconds
        if self.healthy_since is not None:
            self.age_seconds += max(0.0, now - self.healthy_since)
            self.healthy_since = now
        return before, self.age_seconds

    def is_stuck(self, now: float, limit_seconds: float) -> bool:
        return self.starting_since is not None and now - self.starting_since > limit_seconds

    def is_unready(self, now: float, limit_seconds: float) -> bool:
        return self.unready_since is not None and now - self.unready_since > limit_seconds


def _since(before: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def first_seen_health(pod: Pod, pod_type: str, now: float, unix: float, credited_until: float) -> PodHealth:
    """Returns the health of a pod that this agent sees for the first time.

    credited_until: Unix seconds up to which an earlier agent credited its health. What came after is credited at the
    next credit: the container that runs now has run all the while.
    """
    health = PodHealth(pod, pod_type)
    health.update(pod, now)
    started = last_container_started_at(pod)
    if started is not None:
        age = max(0.0, unix - started)
        health.age_seconds = min(age, max(0.0, credited_until - started))
        if health.healthy_since is not None:
            health.healthy_since = now - (age - health.age_seconds)
    return health


def last_container_started_at(pod: Pod) -> float | None:
    """Returns when the container that was started last began to run, in the kubelet's Unix seconds."""
    running = (each.state.running for each in pod.status.container_statuses)
    return max((each.started_at.timestamp() for each in running if each and each.started_at), default=None)


def _has_restarted(before: Pod, now: Pod) -> bool:
    """Tells whether a container has exited since, or counts its exits anew, as after a reboot.

    Init containers that no longer say anything, because the pod's work is done, have not.
    """
    statuses = (*before.status.init_container_statuses, *before.status.container_statuses)
    exits = {each.name: exit_count(each) for each in statuses}
    return any(exit_count(each) != exits.get(each.name, 0) for each in all_containers(now))


OTHER_TYPE = "other"


def pod_type_of(pod: Pod) -> str:
    """Returns the type of a pod. One that cannot be part of a key, which the API server would refuse, is "other"."""
    owner = pod_owner(pod.metadata.name, pod.metadata.owner_references)
    name = pod_type(pod.metadata.labels, owner.name, owner.kind)
    return name if is_pod_type(name) else OTHER_TYPE


SUCCEEDED_MARK = "~done"
"""Mark of a pod that finished well."""

RUN_SECONDS_QUALITY = "run_seconds"
"""The quality that needs no code: how long a finished pod ran."""

MAX_TYPES = 64
"""Rewards that a node keeps. One type more drops the one that was idle for longest; types with pods here go last."""

MAX_QUALITIES = 8
"""Qualities that a type has at most. leadsman.state.records.Reward holds no more."""

_SET_SECONDS = 2.0
"""A wall clock that is so far off was set. NTP slews by less between two credits."""

_QUALITY_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,127}")


class LedgerLimits(Struct, frozen=True):
    """The bounds of what a ledger counts and keeps.

    stuck_seconds: a pod that is bound and has not started for so long is an incident. The kubelet itself waits two
        minutes for a volume.
    unready_seconds: a pod that runs and was never ready for so long is an incident. A Deployment's own limit for
        progress is the same (progressDeadlineSeconds).
    half_life_seconds: the time in which all evidence loses half its weight.
    most_types: types of pod with a reward.
    """

    stuck_seconds: float = 150.0
    unready_seconds: float = 600.0
    half_life_seconds: float = reward_updates.HALF_LIFE_SECONDS
    most_types: int = MAX_TYPES


DEFAULT_LIMITS = LedgerLimits()


class IncidentLedger:
    """The rewards of this node's pod types, and all that was counted to make them.

    rewards: type → its reward.
    counted_totals: what was counted of each pod.
    changed_types: types that had an incident or finished a pod since they were last removed from this set.
    dropped_types: types whose rewards must be deleted from etcd.
    counted_bind_failures: key of a bind failure in etcd → whether its count is saved.
    incident_counts, healthy_seconds: since the start, for metrics.
    pods: UID → health of the pods of this node.
    """

    def __init__(
        self,
        rewards: Mapping[str, Reward],
        counted_totals: CountedTotals,
        first_start: bool,
        clock: Callable[[], float],
        unix: Callable[[], float],
        limits: LedgerLimits = DEFAULT_LIMITS,
    ) -> None:
        """rewards, counted_totals: what an earlier agent of this node left in etcd.

        first_start: there was no earlier agent. What happened to the pods before is history and is not counted.
        clock: monotonic seconds. unix: Unix seconds, as the kubelet's times are and those of the next agent. When the
        wall clock is set, all records are set with it, so that no evidence fades by that.
        """
        self.rewards, self.counted_totals = dict(rewards), counted_totals
        self.changed_types: set[str] = set()
        self.incident_counts: Counter[tuple[str, IncidentCause]] = Counter()
        self.healthy_seconds: defaultdict[str, float] = defaultdict(float)
        self.pods: dict[str, PodHealth] = {}
        self.dropped_types: set[str] = set()
        self.counted_bind_failures: dict[str, bool] = {}
        self._clock, self._wall_clock, self._limits = clock, unix, limits
        self._unix_at_0 = unix() - clock()
        self._first_start, self._first_listed = first_start, frozenset[str]()
        self._credited_until = {name: reward.at_seconds for name, reward in rewards.items()}
        self._opened_at = unix() if first_start else max(self._credited_until.values(), default=unix())

    def on_first_list(self, pods: Iterable[Pod]) -> None:
        """Takes the first list of the node's pods. Totals of pods that are gone are dropped.

        On the node's very first start, all that has happened to the pods so far is noted as counted.
        """
        pods = tuple(pods)
        self._first_listed = frozenset(pod.metadata.uid for pod in pods)
        self.counted_totals.keep_only(self._first_listed)
        if self._first_start:
            for pod in pods:
                self._mark_as_counted(pod)
        self._first_start = False

    def on_pod_updated(self, pod: Pod) -> bool:
        """Takes the pod's present state. Counts what is new of it, unless Events may say more about the cause.

        True: nothing was counted yet; look up the pod's Events and call `count_incidents` with them.
        """
        health = self._update_health(pod)
        uncounted = self._uncounted(health)
        if any(incident.needs_events for incident, _ in uncounted):
            return True
        self._count(health, uncounted, ())
        return False

    def on_pod_deleted(self, pod: Pod) -> None:
        """Counts what is new of the pod by its status alone and forgets it. pod: its last state."""
        health = self._update_health(pod)
        self._count(health, self._uncounted(health), ())
        self.counted_totals.forget(pod.metadata.uid)
        del self.pods[pod.metadata.uid]

    def stuck_pods(self) -> list[str]:
        """UIDs of pods that have been starting, or running without being ready, for too long and are not counted."""
        now, limits = self._clock(), self._limits
        starting = [uid for uid, health in self.pods.items() if health.is_stuck(now, limits.stuck_seconds)]
        unready = [uid for uid, health in self.pods.items() if health.is_unready(now, limits.unready_seconds)]
        marked = [(uid, START_MARK) for uid in starting] + [(uid, READY_MARK) for uid in unready]
        return [uid for uid, mark in marked if self.counted_totals.uncounted(uid, mark, 1)]

    def count_incidents(self, uid: str, events: Sequence[Event] = ()) -> None:
        """Counts what is new of the pod, with the causes that its Events give."""
        health = self.pods[uid]
        self._count(health, self._uncounted(health), events)

    def count_bind_failure(self, key: str, name: str, cause: IncidentCause) -> None:
        """Counts a pod of type `name` that could not be bound to this node; each key in etcd once."""
        if key not in self.counted_bind_failures:
            self.counted_bind_failures[key] = False
            self._record_incident(name, cause)

    def credit_health(self) -> None:
        """Credits each pod's type with the pod's health up to now."""
        self._follow_wall_clock()
        now, unix = self._clock(), self._unix()
        for health in self.pods.values():
            before, after = health.advance(now)
            if after > before and self._admits(health.type):
                self.healthy_seconds[health.type] += after - before
                self.rewards[health.type] = reward_updates.credit_health(self._reward(health.type), before, after, unix)

    def observe_quality(self, uid: str, name: str, cost: float) -> None:
        """Records a quality of the pod; a lower cost is better.

        A quality beyond MAX_QUALITIES of the type, and one whose name no record can hold, is ignored.
        """
        health = self.pods.get(uid)
        if health is None or not _QUALITY_NAME.fullmatch(name) or not self._admits(health.type):
            return
        reward = self._reward(health.type)
        if name in reward.qualities or len(reward.qualities) < MAX_QUALITIES:
            self.rewards[health.type] = reward_updates.record_quality(reward, name, cost, self._unix())

    def _unix(self) -> float:
        """Returns Unix seconds that pass evenly between two credits."""
        return self._unix_at_0 + self._clock()

    def _follow_wall_clock(self) -> None:
        """Moves all records to the wall clock's time once it was set, or stood still with the machine."""
        before, wall = self._unix(), self._wall_clock()
        if abs(wall - before) < _SET_SECONDS:
            return
        self._unix_at_0 += wall - before
        for name, reward in self.rewards.items():
            faded = reward_updates.decay(reward, before)
            last = faded.last_incident_seconds
            last = None if last is None else max(0.0, last + wall - before)
            self.rewards[name] = structs.replace(faded, at_seconds=wall, last_incident_seconds=last)
        self.changed_types |= self.rewards.keys()

    def _update_health(self, pod: Pod) -> PodHealth:
        now, health = self._clock(), self.pods.get(pod.metadata.uid)
        if health is not None and pod.terminating and not health.pod.terminating:
            # From now on it has no incidents. An exit that waits for its Events counts without them.
            self._count(health, [each for each in self._uncounted(health) if each[0].last_exit], ())
        self._note_fallen_counts(pod)
        if health is not None:
            health.update(pod, now)
            return health
        name = pod_type_of(pod)
        credited_until = self._credited_until.get(name, self._opened_at)
        if self._is_new_copy(pod):
            self._mark_as_counted(pod)
            credited_until = self._wall_clock()
        health = first_seen_health(pod, name, now, self._wall_clock(), credited_until)
        self.pods[pod.metadata.uid] = health
        return health

    def _is_new_copy(self, pod: Pod) -> bool:
        """Tells whether the API's copy of a static pod was made again, of the same containers, since this agent or an
        earlier one saw the last."""
        if MIRROR_POD_KEY not in pod.metadata.annotations:
            return False
        made_at = pod.metadata.creation_timestamp
        is_young = made_at is not None and made_at.timestamp() > self._opened_at
        is_unknown = not self.counted_totals.totals(pod.metadata.uid)
        return pod.metadata.uid not in self._first_listed or (is_young and is_unknown)

    def _note_fallen_counts(self, pod: Pod) -> None:
        """A restartCount that fell began again at 0: the node has lost its containers, as after a reboot."""
        counted = self.counted_totals.totals(pod.metadata.uid)
        for each in all_containers(pod):
            restarts, total = each.restart_count, counted.get(each.name, 0)
            if restarts < total - 1:
                self.counted_totals.lower(pod.metadata.uid, each.name, 0)
            # Of a container that is not running, the run that ended is counted besides. One less may also be what an
            # API server answers that is a moment behind, so no restart before this one counts again.
            elif restarts < total and each.state.running:
                self.counted_totals.lower(pod.metadata.uid, each.name, restarts)

    def _uncounted(self, health: PodHealth) -> list[tuple[Incident, int]]:
        """Returns the pod's incidents that are not counted yet, with how many times each is new."""
        uid, now, limits = health.pod.metadata.uid, self._clock(), self._limits
        stuck, unready = health.is_stuck(now, limits.stuck_seconds), health.is_unready(now, limits.unready_seconds)
        incidents = find_incidents(health.pod, stuck, unready)
        times = ((each, self.counted_totals.uncounted(uid, each.mark, each.total)) for each in incidents)
        return [(incident, count) for incident, count in times if count]

    def _count(self, health: PodHealth, uncounted: Iterable[tuple[Incident, int]], events: Sequence[Event]) -> None:
        for incident, times in uncounted:
            self.counted_totals.record(health.pod.metadata.uid, incident.mark, incident.total)
            if cause := _cause(incident, health.pod, events):
                for _ in range(times):
                    self._record_incident(health.type, cause)
        self._count_completion(health)

    def _record_incident(self, name: str, cause: IncidentCause) -> None:
        self.rewards[name] = reward_updates.record_incident(self._reward(name), cause, self._unix())
        self.incident_counts[name, cause] += 1
        self.changed_types.add(name)

    def _count_completion(self, health: PodHealth) -> None:
        """Counts a pod that succeeded, once, like an incident."""
        pod, uid = health.pod, health.pod.metadata.uid
        if (
            pod.status.phase != "Succeeded"
            or pod.terminating
            or not self.counted_totals.uncounted(uid, SUCCEEDED_MARK, 1)
        ):
            return
        self.counted_totals.record(uid, SUCCEEDED_MARK, 1)
        if not self._admits(health.type):
            return
        self.rewards[health.type] = reward_updates.credit_completion(
            self._reward(health.type), health.age_seconds, self._unix()
        )
        self.changed_types.add(health.type)
        if (seconds := run_seconds(pod)) is not None:
            self.observe_quality(uid, RUN_SECONDS_QUALITY, seconds)

    def _mark_as_counted(self, pod: Pod) -> None:
        for each in find_incidents(pod):
            self.counted_totals.record(pod.metadata.uid, each.mark, each.total)
        if pod.status.phase == "Succeeded":
            self.counted_totals.record(pod.metadata.uid, SUCCEEDED_MARK, 1)

    def _reward(self, name: str) -> Reward:
        if name not in self.rewards:
            self._make_room()
            self.rewards[name] = reward_updates.new_reward(self._unix(), self._limits.half_life_seconds)
            self.dropped_types.discard(name)
        return self.rewards[name]

    def _admits(self, name: str) -> bool:
        """Tells whether what went well may be recorded for this type.

        It never drives out the reward of another type that has pods here. An incident may.
        """
        if name in self.rewards or len(self.rewards) < self._limits.most_types:
            return True
        return not self.rewards.keys() <= {health.type for health in self.pods.values()}

    def _make_room(self) -> None:
        """Drops the type that was idle for longest; types that have pods here go last."""
        if len(self.rewards) < self._limits.most_types:
            return
        here = {health.type for health in self.pods.values()}
        oldest = min(self.rewards, key=lambda name: (name in here, self.rewards[name].at_seconds))
        del self.rewards[oldest]
        self.dropped_types.add(oldest)
        self.changed_types.discard(oldest)
        self.healthy_seconds.pop(oldest, None)
        for key in [key for key in self.incident_counts if key[0] == oldest]:
            del self.incident_counts[key]


def _cause(incident: Incident, pod: Pod, events: Sequence[Event]) -> IncidentCause | None:
    if incident.mark == START_MARK:
        return incidents.start_failure_cause(pod, events)
    if incident.last_exit is None or not incident.needs_events:
        return incident.cause
    return incidents.container_exit_cause(incident.mark, incident.last_exit, events) or incident.cause
