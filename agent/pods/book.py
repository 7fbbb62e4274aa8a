"""The node's book: what every incident, every healthy second and every observation did to each type's reward.

Two things make it exact: a total that was counted is noted in the same transaction as the reward that it changed, and
health is credited by age, which grows with time only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from agent.pods import causes, lives
from agent.pods.counted import Counted
from agent.pods.health import run_seconds
from agent.pods.incidents import START, Incident, incidents
from agent.pods.lives import Life
from agent.pods.types import type_of
from apiserver.objects import Event, Pod
from clusterstate.records import Reward
from rewards import ledger
from rewards.causes import Cause

DONE = "~done"
"""Mark of a pod that finished well."""

RUN_SECONDS = "run_seconds"
"""The quality that needs no code: how long a finished pod ran."""

MOST_TYPES = 64
"""Kept a node. Beyond, the type that nothing has happened to for longest goes, unless it has pods here."""

MOST_QUALITIES = 8
"""Of a type, as clusterstate.records.Reward bounds them."""

_QUALITY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,127}")


class Limits(Struct, frozen=True):
    """stuck_seconds: a pod that is bound and does not run for so long is asked about; the kubelet itself waits two
    minutes for a volume. half_life_seconds: of all evidence."""

    stuck_seconds: float = 150.0
    half_life_seconds: float = ledger.HALF_LIFE_SECONDS
    most_types: int = MOST_TYPES


DEFAULT = Limits()


class Kept(Struct, frozen=True):
    """What an earlier agent of this node left. first: there was none; what the pods went through before is history."""

    rewards: Mapping[str, Reward]
    counted: Counted
    first: bool


class Book:
    """clock: monotonic seconds. unix: Unix seconds.

    rewards: type → its reward. changed: types whose incidents moved since they were last cleared from it. told: what
    was counted as the extender wrote it → whether that is kept by now. incidents, healthy_seconds: since the start,
    for metrics.
    """

    def __init__(
        self, kept: Kept, clock: Callable[[], float], unix: Callable[[], float], limits: Limits = DEFAULT
    ) -> None:
        self.rewards, self.counted, self.changed = dict(kept.rewards), kept.counted, set[str]()
        self.incidents: Counter[tuple[str, Cause]] = Counter()
        self.healthy_seconds: defaultdict[str, float] = defaultdict(float)
        self.lives: dict[str, Life] = {}
        self.dropped: set[str] = set()
        self.told: dict[str, bool] = {}
        self._clock, self._unix, self._limits = clock, unix, limits
        self._first = kept.first
        self._kept_until = {name: reward.at_seconds for name, reward in kept.rewards.items()}
        self._opened_at = unix() if kept.first else max(self._kept_until.values(), default=unix())

    def listed(self, pods: Iterable[Pod]) -> None:
        """The first listing. Marks of pods that are gone go; what happened before the very first start is history."""
        pods = tuple(pods)
        self.counted.keep_only(pod.metadata.uid for pod in pods)
        if self._first:
            for pod in pods:
                self._note_all(pod)
        self._first = False

    def seen(self, pod: Pod) -> bool:
        """The pod is there, as it is now. True: Events may say more about it, ask and call `judge`."""
        now, uid = self._clock(), pod.metadata.uid
        life = self.lives.get(uid)
        if life is None:
            name = type_of(pod)
            kept_until = self._kept_until.get(name, self._opened_at)
            self.lives[uid] = lives.begun(pod, name, now, self._unix(), kept_until)
        else:
            life.changed(pod, now)
        return self.doubtful(uid) or self.judge(uid)

    def gone(self, pod: Pod) -> None:
        """pod: as it was last seen."""
        uid = pod.metadata.uid
        self.seen(pod)
        self.judge(uid)
        self.counted.forget(uid)
        del self.lives[uid]

    def doubtful(self, uid: str) -> bool:
        """Whether something new happened to the pod that Events could explain."""
        return any(each.doubtful for each, _ in self._news(self.lives[uid]))

    def stuck(self) -> list[str]:
        """UIDs of pods that have been starting for too long, and were not counted for it."""
        now = self._clock()
        late = (uid for uid, life in self.lives.items() if life.stuck(now, self._limits.stuck_seconds))
        return [uid for uid in late if self.counted.news(uid, START, 1)]

    def judge(self, uid: str, events: Sequence[Event] = ()) -> bool:
        """Counts what is new of the pod, with what the Events say of it. Always False: nothing is left to ask."""
        life = self.lives[uid]
        for incident, times in self._news(life):
            cause = _cause(incident, life.pod, events)
            self.counted.note(uid, incident.mark, incident.total)
            for _ in range(times if cause else 0):
                self._failed(life.type, cause)
        self._finished(life)
        return False

    def bind_failed(self, key: str, name: str, cause: Cause) -> None:
        """A pod of this type never came here. key: names the failure, wherever it is met again."""
        if key not in self.told:
            self.told[key] = False
            self._failed(name, cause)

    def credit(self) -> None:
        """Accounts for the health of every pod up to now."""
        now, unix = self._clock(), self._unix()
        for life in self.lives.values():
            before, after = life.account(now)
            if after > before and self._admits(life.type):
                self.healthy_seconds[life.type] += after - before
                self.rewards[life.type] = ledger.credited(self._reward(life.type), before, after, unix)

    def observe(self, uid: str, name: str, cost: float) -> None:
        """A quality of the pod, lower being better. One quality too many for the type, and one whose name no record
        can hold, is left out."""
        life = self.lives.get(uid)
        if life is None or not _QUALITY.fullmatch(name) or not self._admits(life.type):
            return
        reward = self._reward(life.type)
        if name in reward.qualities or len(reward.qualities) < MOST_QUALITIES:
            self.rewards[life.type] = ledger.observed(reward, name, cost, self._unix())

    def _news(self, life: Life) -> list[tuple[Incident, int]]:
        uid = life.pod.metadata.uid
        stuck = life.stuck(self._clock(), self._limits.stuck_seconds)
        found = ((each, self.counted.news(uid, each.mark, each.total)) for each in incidents(life.pod, stuck))
        return [(each, times) for each, times in found if times]

    def _failed(self, name: str, cause: Cause | None) -> None:
        assert cause is not None
        self.rewards[name] = ledger.failed(self._reward(name), cause, self._unix())
        self.incidents[name, cause] += 1
        self.changed.add(name)

    def _finished(self, life: Life) -> None:
        """Counted once, like an incident."""
        pod, uid = life.pod, life.pod.metadata.uid
        if pod.status.phase != "Succeeded" or pod.terminating or not self.counted.news(uid, DONE, 1):
            return
        self.counted.note(uid, DONE, 1)
        if not self._admits(life.type):
            return
        self.rewards[life.type] = ledger.finished(self._reward(life.type), life.age_seconds, self._unix())
        self.changed.add(life.type)
        if (seconds := run_seconds(pod)) is not None:
            self.observe(uid, RUN_SECONDS, seconds)

    def _note_all(self, pod: Pod) -> None:
        for each in incidents(pod):
            self.counted.note(pod.metadata.uid, each.mark, each.total)
        if pod.status.phase == "Succeeded":
            self.counted.note(pod.metadata.uid, DONE, 1)

    def _reward(self, name: str) -> Reward:
        found = self.rewards.get(name)
        if found is None:
            self._make_room()
            found = self.rewards[name] = ledger.empty(self._unix(), self._limits.half_life_seconds)
            self.dropped.discard(name)
        return found

    def _admits(self, name: str) -> bool:
        """What went well does not drive out what was learned of another type that has pods here; an incident may."""
        if name in self.rewards or len(self.rewards) < self._limits.most_types:
            return True
        return not self.rewards.keys() <= {life.type for life in self.lives.values()}

    def _make_room(self) -> None:
        """The type that was idle for longest goes; when all have pods here, of those too."""
        if len(self.rewards) < self._limits.most_types:
            return
        here = {life.type for life in self.lives.values()}
        oldest = min(self.rewards, key=lambda name: (name in here, self.rewards[name].at_seconds))
        del self.rewards[oldest]
        self.dropped.add(oldest)
        self.changed.discard(oldest)
        self.healthy_seconds.pop(oldest, None)
        for key in [key for key in self.incidents if key[0] == oldest]:
            del self.incidents[key]


def _cause(incident: Incident, pod: Pod, events: Sequence[Event]) -> Cause | None:
    if incident.mark == START:
        return causes.of_start(pod, events)
    if incident.end is None or not incident.doubtful:
        return incident.cause
    return causes.of_end(incident.mark, incident.end, events) or incident.cause
