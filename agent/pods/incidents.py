"""Finds the incidents of a pod so far in its status alone. Pure.

An incident is named by its pod's UID and a mark, and `total` says how often it has happened by now. A reader that keeps
(UID, mark) → total counts each once: a re-list, a patch of an annotation or a restart of the agent adds nothing.

    mark           total                                                     cause
    <container>    ends of its runs, init containers too                     of the last end; None: it went well
    ~phase         1 once the pod's phase is Failed                          evicted, failed, or None
    ~start         1 once the pod is stuck between binding and running       start stuck, until Events say more
    ~ready         1 once the pod runs for long and was never ready          never ready
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from agent.pods.container_exits import OOM_KILLED, exit_count, exited_cleanly, last_exit, may_be_probe_kill
from agent.pods.pod_status import all_containers, is_never_ready, is_starting
from leadsman.kube.objects import ContainerStateTerminated, ContainerStatus, Pod
from leadsman.rewards.incident_causes import IncidentCause

PHASE_MARK: Final = "~phase"
START_MARK: Final = "~start"
READY_MARK: Final = "~ready"
"""No container's name begins with ~: they are RFC 1123 labels."""

_BENIGN_REASONS = ("Preempting", "NodeShutdown", "Terminated", "Shutdown")
"""status.reason of pods that the kubelet ended for another pod's sake or because the node is shut down."""

_PHASE_CAUSES: dict[str, IncidentCause] = {"Evicted": IncidentCause.EVICTED}


class Incident(Struct, frozen=True):
    """Something that happened to a pod `total` times so far.

    cause: None for an end that was no failure; it is noted as counted all the same.
    needs_events: Warning Events may give another cause.
    last_exit: how the container's last run ended.
    """

    mark: str
    total: int
    cause: IncidentCause | None
    needs_events: bool = False
    last_exit: ContainerStateTerminated | None = None


def find_incidents(pod: Pod, stuck: bool = False, unready: bool = False) -> tuple[Incident, ...]:
    """All incidents of the pod so far.

    A pod that is being deleted has none: its containers are stopped on purpose.
    stuck: it has been starting for too long.
    unready: it has been running for too long without ever being ready.
    """
    if pod.terminating:
        return ()
    if pod.status.phase == "Failed":
        return tuple(_of_failed(pod))
    start = (
        (Incident(START_MARK, 1, IncidentCause.START_STUCK, needs_events=True),) if stuck and is_starting(pod) else ()
    )
    ready = (Incident(READY_MARK, 1, IncidentCause.NEVER_READY),) if unready and is_never_ready(pod) else ()
    return (*_of_containers(pod), *start, *ready)


def _of_failed(pod: Pod) -> Iterator[Incident]:
    """A reason in the status means that the kubelet ended the pod; how its containers ended is a consequence of it."""
    reason = pod.status.reason
    exits = [] if reason else list(_of_containers(pod))
    yield from exits
    if not any(each.cause for each in exits):
        cause = None if reason in _BENIGN_REASONS else _PHASE_CAUSES.get(reason, IncidentCause.FAILED_PHASE)
        yield Incident(PHASE_MARK, 1, cause)


def _of_containers(pod: Pod) -> Iterator[Incident]:
    for container in all_containers(pod):
        if total := exit_count(container):
            yield _of_container(container, total)


def _of_container(container: ContainerStatus, total: int) -> Incident:
    """Several exits since the last look count as the last one; an exit that the kubelet no longer knows is a crash."""
    end = last_exit(container)
    if end is None:
        return Incident(container.name, total, IncidentCause.CRASH)
    return Incident(container.name, total, _cause(end), may_be_probe_kill(end), end)


def _cause(end: ContainerStateTerminated) -> IncidentCause | None:
    if end.reason == OOM_KILLED:
        return IncidentCause.OOM
    return None if exited_cleanly(end) else IncidentCause.CRASH
