"""Pods with delay bounds that got no node. kube-scheduler asks any replica, so each knows some of the attempts."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec import Struct

from extender.api.contract.decisions import SilentReplica
from extender.api.contract.overview import BoundedPod, WaitingPods
from extender.journal import JournalEntry

FORGET_SECONDS = 400.0
"""kube-scheduler tries a pod again after 300 s at the latest: one that it does not try any more is placed or gone."""


class TriedPod(Struct, frozen=True):
    """A pod with delay bounds, and this replica's attempts.

    name: as namespace/name. refused_since: the first in a row that no node passed; None: a node passed the last one.
    tried_at: the last one. All are monotonic seconds.
    """

    name: str
    refused_since: float | None
    tried_at: float


def tried_pods(before: Mapping[str, TriedPod], entries: Iterable[JournalEntry], now: float) -> Mapping[str, TriedPod]:
    """UID → the pod, by the journal's entries and what was known before."""
    tried = dict(before)
    for entry in entries:
        pod = entry.pod
        if not pod.has_delay_bounds or entry.filter_result is None:
            continue
        refused_since = None
        if not entry.filter_result.kept:
            known = tried.get(pod.uid)
            refused_since = entry.decided_at if known is None or known.refused_since is None else known.refused_since
        tried[pod.uid] = TriedPod(f"{pod.namespace}/{pod.name}", refused_since, entry.decided_at)
    return {uid: pod for uid, pod in tried.items() if now - pod.tried_at < FORGET_SECONDS}


def bounded_pods(tried: Mapping[str, TriedPod], now: float) -> Sequence[BoundedPod]:
    """As one replica says them to another, whose clock has other seconds."""
    return [
        BoundedPod(
            uid, pod.name, None if pod.refused_since is None else now - pod.refused_since, max(0.0, now - pod.tried_at)
        )
        for uid, pod in tried.items()
    ]


def waiting_pods(replicas: Iterable[Sequence[BoundedPod]], partial: Sequence[SilentReplica] = ()) -> WaitingPods:
    """Of all replicas: the last attempt of any says whether a pod waits. partial: replicas that are missing."""
    attempts: dict[str, list[BoundedPod]] = {}
    for pods in replicas:
        for pod in pods:
            attempts.setdefault(pod.uid, []).append(pod)
    waiting = {uid: seconds for uid, each in attempts.items() if (seconds := _waiting_seconds(each)) is not None}
    if not waiting:
        return WaitingPods(0, None, None, partial)
    longest = max(waiting, key=lambda uid: waiting[uid])
    return WaitingPods(len(waiting), round(waiting[longest], 1), attempts[longest][0].pod, partial)


def _waiting_seconds(attempts: Sequence[BoundedPod]) -> float | None:
    """Since the first refusal, but no longer than since a node passed. None: a node passed the last attempt."""
    passed_ago = min((each.tried_seconds_ago for each in attempts if each.waiting_seconds is None), default=inf)
    refused_ago = min((each.tried_seconds_ago for each in attempts if each.waiting_seconds is not None), default=inf)
    if passed_ago <= refused_ago:
        return None
    return min(passed_ago, max(each.waiting_seconds or 0.0 for each in attempts))
