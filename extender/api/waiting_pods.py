"""Pods with delay bounds that got no node, as far as this replica decided on them."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from extender.journal import JournalEntry

FORGET_SECONDS = 400.0
"""kube-scheduler tries a pod again after 300 s at the latest: one that it does not try any more is placed or gone."""


class WaitingPod(Struct, frozen=True):
    """name: as namespace/name. since, tried_at: monotonic seconds."""

    name: str
    since: float
    tried_at: float


def waiting_pods(
    before: Mapping[str, WaitingPod], entries: Iterable[JournalEntry], now: float
) -> Mapping[str, WaitingPod]:
    """UID → the pod, by the journal's entries and what was known before."""
    waiting = dict(before)
    for entry in entries:
        pod = entry.pod
        if not pod.has_delay_bounds or entry.filter_result is None:
            continue
        if entry.filter_result.kept:
            waiting.pop(pod.uid, None)
        else:
            since = waiting[pod.uid].since if pod.uid in waiting else entry.decided_at
            waiting[pod.uid] = WaitingPod(f"{pod.namespace}/{pod.name}", since, entry.decided_at)
    return {uid: pod for uid, pod in waiting.items() if now - pod.tried_at < FORGET_SECONDS}
