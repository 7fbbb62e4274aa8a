"""Finds the cause of an incident in the kubelet's Events and container states. Pure.

Tables, read from the top; the first row that fits decides. Reasons: pkg/kubelet/events/event.go, container states:
pkg/kubelet/kuberuntime and pkg/kubelet/images/types.go of Kubernetes 1.36.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from agent.pods.pod_status import all_containers
from leadsman.kube.objects import ContainerStateTerminated, ContainerStateWaiting, Event, Pod
from leadsman.rewards.incident_causes import IncidentCause

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

_NO_SUCH_IMAGE = (
    r"not ?found|manifest unknown|repository does not exist|pull access denied|unauthorized|authentication required|"
    r"invalid reference format|couldn't parse image|InvalidImageName|denied:"
)
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
    """PROBE_FAILURE when a liveness or startup probe of the container failed in its last run, else None."""
    of_this_run = (each for each in events if _is_about(each, container) and _happened_in(each, end))
    probe_failed = any(_event_cause(each) is IncidentCause.PROBE_FAILURE for each in of_this_run)
    return IncidentCause.PROBE_FAILURE if probe_failed else None


def start_failure_cause(pod: Pod, events: Iterable[Event]) -> IncidentCause:
    """Why the pod does not start, by its newest Event that says so, else by a waiting container, else START_STUCK."""
    newest = sorted(events, key=last_seen_at, reverse=True)
    waiting = (each.state.waiting for each in all_containers(pod) if each.state.waiting)
    verdicts = (*map(_event_cause, newest), *map(_waiting_cause, waiting), IncidentCause.START_STUCK)
    return next(each for each in verdicts if each and each is not IncidentCause.PROBE_FAILURE)


def last_seen_at(event: Event) -> datetime:
    """When the Event was last seen; a time long past when it carries none."""
    observed = event.series.last_observed_time if event.series else None
    return observed or event.last_timestamp or event.event_time or event.metadata.creation_timestamp or _LONG_AGO


def _event_cause(event: Event) -> IncidentCause | None:
    return _first_match(_EVENT_RULES, event.reason, event.message) if event.type == "Warning" else None


def _waiting_cause(waiting: ContainerStateWaiting) -> IncidentCause | None:
    return _first_match(_WAITING_RULES, waiting.reason, waiting.message)


def _first_match(table: Iterable[tuple[str, str, IncidentCause]], reason: str, message: str) -> IncidentCause | None:
    fits = (v for r, m, v in table if re.fullmatch(r, reason) and re.search(m, message, re.IGNORECASE))
    return next(fits, None)


def _is_about(event: Event, container: str) -> bool:
    path = event.involved_object.field_path
    return not path or path.endswith(f"{{{container}}}")


def _happened_in(event: Event, end: ContainerStateTerminated) -> bool:
    """Whether the Event falls into the run that ended. Unknown times fit: the Event is of this pod at least."""
    at, began, over = last_seen_at(event), end.started_at, end.finished_at
    return at is _LONG_AGO or ((began is None or began <= at) and (over is None or at <= over + _CLOCK_TOLERANCE))
