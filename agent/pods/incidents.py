"""Finds the incidents of a pod so far in its status alone. Pure.

An incident is named by its pod's UID and a mark, and `total` says how often it has happened by now. A reader that keeps
(UID, mark) → total counts each once: a re-list, a patch of an annotation or a restart of the agent adds nothing.

    mark           total                                                     cause
    <container>    ends of its runs, init containers too                     of the last end; None: it went well
    ~phase         1 once the pod's phase is Failed                          evicted, failed, or None
    ~start         1 once the pod is stuck between binding and running       start stuck, until Events say more
    ~ready         1 once the pod runs for long and was never ready          never ready
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from leadsman.kube.objects import ContainerStateTerminated, ContainerStatus, Event, Pod
from leadsman.rewards.incident_causes import IncidentCause

# Tells from its status whether a pod is healthy, is starting, or has finished.


def is_healthy(pod: Pod) -> bool:
    """Tells whether every container is running and ready or has completed, and at least one is running.

    One crashing container makes the pod unhealthy. A pod that is being deleted is not healthy.
    """
    states = pod.status.container_statuses
    running = [each for each in states if each.state.running is not None]
    fine = all(
        each.ready if each.state.running else bool(each.state.terminated and exited_cleanly(each.state.terminated))
        for each in states
    )
    return pod.status.phase == "Running" and not pod.terminating and bool(running) and fine


def is_starting(pod: Pod) -> bool:
    """Tells whether the pod is bound to the node and has not started.

    Not while an init container runs or after one failed, which are other cases. An init container that runs and is
    ready is a sidecar.
    """
    if pod.status.phase != "Pending" or pod.terminating or not pod.spec.node_name:
        return False
    return not any((each.state.running and not each.ready) or exit_count(each) for each in all_containers(pod))


def is_never_ready(pod: Pod) -> bool:
    """Tells whether the pod's containers run and one has not been ready since it started.

    The kubelet sets the condition Ready to False before it starts a container. One that was lost later is younger. A
    pod whose container has ended has another incident.
    """
    if pod.status.phase != "Running" or pod.terminating or any(map(exit_count, all_containers(pod))):
        return False
    waiting = [each.state.running for each in pod.status.container_statuses if each.state.running and not each.ready]
    since = next((each.last_transition_time for each in pod.status.conditions if each.type == "Ready"), None)
    return since is not None and any(run.started_at is not None and since <= run.started_at for run in waiting)


def all_containers(pod: Pod) -> Iterator[ContainerStatus]:
    """Yields the status of every container that says something, init containers first: one of them that fails keeps
    the pod from running too."""
    mains = pod.status.container_statuses
    if not mains or any(each.state.terminated is None for each in mains):  # else kubelet stops the sidecars
        yield from pod.status.init_container_statuses
    yield from mains


def run_seconds(pod: Pod) -> float | None:
    """Returns the time from the first start to the last end, on the kubelet's clock; None unless the pod succeeded."""
    over = [each.state.terminated for each in pod.status.container_statuses if each.state.terminated]
    began = [end.started_at for end in over if end.started_at]
    finished = [end.finished_at for end in over if end.finished_at]
    if pod.status.phase != "Succeeded" or not began or not finished:
        return None
    return max(0.0, (max(finished) - min(began)).total_seconds())


# Counts how often a container exited, and finds its last exit.
#
# A container's run number n (from 0) is over once restartCount is above n, or once it is n and the state no longer
# runs. So the count only grows, and a reader that remembers its last count counts each exit once, however often and
# late it looks.

OOM_KILLED = "OOMKilled"

_SIGNAL_EXIT_BASE = 128


def exit_count(container: ContainerStatus) -> int:
    """Counts the exits so far. A clean exit of the last run counts only once a restart follows: the container may be
    done."""
    current = _current_exit(container)
    return container.restart_count + (current is not None and not exited_cleanly(current))


def last_exit(container: ContainerStatus) -> ContainerStateTerminated | None:
    """Returns how the last run ended; None when none has ended, or when the kubelet no longer knows."""
    return _current_exit(container) or container.last_state.terminated


def exited_cleanly(end: ContainerStateTerminated) -> bool:
    return end.exit_code == 0 and end.signal == 0 and end.reason != OOM_KILLED


def may_be_probe_kill(end: ContainerStateTerminated) -> bool:
    """A kill for a failed probe looks like any other stop: the process obeyed (0), or died of the signal."""
    return end.reason != OOM_KILLED and (exited_cleanly(end) or end.signal != 0 or end.exit_code > _SIGNAL_EXIT_BASE)


def _current_exit(container: ContainerStatus) -> ContainerStateTerminated | None:
    """Returns the exit of the run that restartCount numbers. While the container waits for a restart, that is its last
    run."""
    if container.state.terminated is not None:
        return container.state.terminated
    return container.last_state.terminated if container.state.waiting is not None else None


# Finds the cause of an incident in the kubelet's Events and container states.
#
# Tables, read from the top; the first row that fits decides. Reasons: pkg/kubelet/events/event.go, container states:
# pkg/kubelet/kuberuntime and pkg/kubelet/images/types.go of Kubernetes 1.36.

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

_NO_SUCH_IMAGE = (
    r"not ?found|manifest unknown|repository does not exist|pull access denied|unauthorized|authentication required|"
    r"invalid reference format|couldn't parse image|InvalidImageName|denied:|\b40[134] \(?(unauthorized|forbidden)|"
    r"StatusCode: 40[134]|no such host"
)
"""A registry that refuses or does not have the image, by its status where it says no word (GHCR and ECR: 403), and a
registry of which the name service says that there is none: the same on every node."""
_NO_SUCH_OBJECT = r"(configmap|secret) .*not found|non-existent (config map|secret) key|couldn't find key"
_NO_SUCH_CLAIM = r"persistentvolumeclaim .*not found|unbound|not bound|non-bound|Multi-Attach"

_EVENT_RULES: tuple[tuple[str, str, IncidentCause], ...] = (
    ("FailedMount|FailedMapVolume|FailedAttachVolume", _NO_SUCH_OBJECT, IncidentCause.CONFIG_ERROR),
    ("FailedMount|FailedMapVolume|FailedAttachVolume", _NO_SUCH_CLAIM, IncidentCause.CLAIM_UNBOUND),
    ("FailedMount|FailedMapVolume|FailedAttachVolume", "", IncidentCause.VOLUME),
    ("FailedCreatePodSandBox|FailedPodSandBoxStatus|NetworkNotReady", "", IncidentCause.SANDBOX),
    ("Evicted", "", IncidentCause.EVICTED),
    ("Unhealthy", r"^(Liveness|Startup) probe", IncidentCause.PROBE_FAILURE),
    ("InspectFailed", "", IncidentCause.IMAGE_UNKNOWN),
    ("Failed|ErrImageNeverPull", rf"pull.*({_NO_SUCH_IMAGE})", IncidentCause.IMAGE_UNKNOWN),
    ("Failed", r"Failed to pull image", IncidentCause.IMAGE_PULL),
    ("ErrImageNeverPull", "", IncidentCause.IMAGE_PULL),
    ("Failed", _NO_SUCH_OBJECT, IncidentCause.CONFIG_ERROR),
)
"""Reason, message, verdict. An empty message fits all."""

_WAITING_RULES: tuple[tuple[str, str, IncidentCause], ...] = (
    ("InvalidImageName", "", IncidentCause.IMAGE_UNKNOWN),
    ("CreateContainerConfigError", "", IncidentCause.CONFIG_ERROR),
    ("ErrImagePull|ImagePullBackOff", _NO_SUCH_IMAGE, IncidentCause.IMAGE_UNKNOWN),
    ("ErrImagePull|ImagePullBackOff|ErrImageNeverPull|RegistryUnavailable", "", IncidentCause.IMAGE_PULL),
)
"""Reason and message of a container that waits. ImagePullBackOff alone does not say why: an Event does."""

_CLOCK_TOLERANCE = timedelta(seconds=2)
"""Events and ends of containers are both stamped by the kubelet, in whole seconds."""


def container_exit_cause(
    container: str, end: ContainerStateTerminated, events: Iterable[Event]
) -> IncidentCause | None:
    """Returns PROBE_FAILURE when a liveness or startup probe of the container failed in its last run, else None."""
    of_this_run = (each for each in events if _is_about(each, container) and _happened_in(each, end))
    probe_failed = any(_event_cause(each) is IncidentCause.PROBE_FAILURE for each in of_this_run)
    return IncidentCause.PROBE_FAILURE if probe_failed else None


def start_failure_cause(pod: Pod, events: Iterable[Event]) -> IncidentCause:
    """Says why the pod does not start, by its newest Event that tells, else a waiting container, else START_STUCK."""
    newest = sorted(events, key=last_seen_at, reverse=True)
    waiting = (each.state.waiting for each in all_containers(pod) if each.state.waiting)
    by_state = (_first_match(_WAITING_RULES, each.reason, each.message) for each in waiting)
    verdicts = (*map(_event_cause, newest), *by_state, IncidentCause.START_STUCK)
    return next(each for each in verdicts if each and each is not IncidentCause.PROBE_FAILURE)


def last_seen_at(event: Event) -> datetime:
    """Returns when the Event was last seen; a time long past when it carries none."""
    return event.last_seen or event.metadata.creation_timestamp or _LONG_AGO


def _event_cause(event: Event) -> IncidentCause | None:
    return _first_match(_EVENT_RULES, event.reason, event.message) if event.type == "Warning" else None


def _first_match(table: Iterable[tuple[str, str, IncidentCause]], reason: str, message: str) -> IncidentCause | None:
    fits = (v for r, m, v in table if re.fullmatch(r, reason) and re.search(m, message, re.IGNORECASE))
    return next(fits, None)


def _is_about(event: Event, container: str) -> bool:
    path = event.involved_object.field_path
    return not path or path.endswith(f"{{{container}}}")


def _happened_in(event: Event, end: ContainerStateTerminated) -> bool:
    """Tells whether the Event falls into the run that ended. Unknown times fit: the Event is of this pod at least."""
    at, began, over = last_seen_at(event), end.started_at, end.finished_at
    return at is _LONG_AGO or ((began is None or began <= at) and (over is None or at <= over + _CLOCK_TOLERANCE))


PHASE_MARK: Final = "~phase"
START_MARK: Final = "~start"
READY_MARK: Final = "~ready"
"""No container's name begins with ~: they are RFC 1123 labels."""

_BENIGN_REASONS = ("Preempting", "NodeShutdown", "Terminated", "Shutdown")
"""status.reason of pods that the kubelet ended for another pod's sake or because the node is shut down."""


class Incident(Struct, frozen=True):
    """Says what happened to a pod, `total` times so far.

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
    """Returns all incidents of the pod so far.

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
    """Yields the incidents of a failed pod. A reason in its status means that the kubelet ended it; how its containers
    ended is a consequence of it."""
    reason = pod.status.reason
    exits = [] if reason else list(_of_containers(pod))
    yield from exits
    if not any(each.cause for each in exits):
        ended = IncidentCause.EVICTED if reason == "Evicted" else IncidentCause.FAILED_PHASE
        yield Incident(PHASE_MARK, 1, None if reason in _BENIGN_REASONS else ended)


def _of_containers(pod: Pod) -> Iterator[Incident]:
    """Several exits since the last look count as the last one; an exit that the kubelet no longer knows is a crash."""
    for container in all_containers(pod):
        if total := exit_count(container):
            end, cause = last_exit(container), IncidentCause.CRASH
            if end is None:
                yield Incident(container.name, total, cause)
                continue
            failure = IncidentCause.OOM if end.reason == OOM_KILLED else cause
            yield Incident(container.name, total, None if exited_cleanly(end) else failure, may_be_probe_kill(end), end)
