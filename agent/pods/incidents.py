"""What went wrong with a pod so far, read from its status alone. Pure.

An incident is named by its pod's UID and a mark, and `total` says how often it has happened by now. Whoever keeps
(UID, mark) → total counts each once: a re-list, a patch of an annotation or a restart of the agent adds nothing.

    mark           total                                                     cause
    <container>    ends of its runs, init containers too                     of the last end; None: it went well
    ~phase         1 once the pod's phase is Failed                          evicted, failed, or None
    ~start         1 once the pod is stuck between binding and running       start stuck, until Events say more
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from agent.pods.container_exits import OOM_KILLED, exit_count, exited_cleanly, last_exit, may_be_probe_kill
from agent.pods.pod_status import all_containers, is_starting
from leadsman.kube.objects import ContainerStateTerminated, ContainerStatus, Pod
from leadsman.rewards.incident_causes import IncidentCause

PHASE_MARK: Final = "~phase"
START_MARK: Final = "~start"
"""No container's name begins with ~: they are RFC 1123 labels."""

_BENIGN_REASONS = ("Preempting", "NodeShutdown", "Terminated", "Shutdown")
"""status.reason of pods that the kubelet ended for another pod's sake or because the node is shut down."""

_PHASE_CAUSES: dict[str, IncidentCause] = {"Evicted": IncidentCause.EVICTED}


class Incident(Struct, frozen=True):
    """cause None: it is to be remembered, and was no failure. doubtful: Warning Events may tell another cause.

    end: of the container's last run.
    """

    mark: str
    total: int
    cause: IncidentCause | None
    needs_events: bool = False
    last_exit: ContainerStateTerminated | None = None


def find_incidents(pod: Pod, stuck: bool = False) -> tuple[Incident, ...]:
    """All so far; none of a pod that is being deleted, whose containers are stopped on purpose. stuck: it has been
    starting for too long."""
    if pod.terminating:
        return ()
    if pod.status.phase == "Failed":
        return tuple(_of_failed(pod))
    start = (
        (Incident(START_MARK, 1, IncidentCause.START_STUCK, needs_events=True),) if stuck and is_starting(pod) else ()
    )
    return (*_of_containers(pod), *start)


def _of_failed(pod: Pod) -> Iterator[Incident]:
    """With a reason the kubelet ended the pod, and how its containers ended is a consequence."""
    reason = pod.status.reason
    ended = [] if reason else list(_of_containers(pod))
    yield from ended
    if not any(each.cause for each in ended):
        cause = None if reason in _BENIGN_REASONS else _PHASE_CAUSES.get(reason, IncidentCause.FAILED_PHASE)
        yield Incident(PHASE_MARK, 1, cause)


def _of_containers(pod: Pod) -> Iterator[Incident]:
    for container in all_containers(pod):
        if total := exit_count(container):
            yield _of_container(container, total)


def _of_container(container: ContainerStatus, total: int) -> Incident:
    """Several ends since the last look are taken to be like the last; one that the kubelet forgot, for a crash."""
    end = last_exit(container)
    if end is None:
        return Incident(container.name, total, IncidentCause.CRASH)
    return Incident(container.name, total, _cause(end), may_be_probe_kill(end), end)


def _cause(end: ContainerStateTerminated) -> IncidentCause | None:
    if end.reason == OOM_KILLED:
        return IncidentCause.OOM
    return None if exited_cleanly(end) else IncidentCause.CRASH
