"""What the kubelet said of a pod → the cause of its incident. Pure.

Tables, read from the top; the first row that fits decides. Reasons: pkg/kubelet/events/event.go, container states:
pkg/kubelet/kuberuntime and pkg/kubelet/images/types.go of Kubernetes 1.36.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from agent.pods.health import containers
from apiserver.objects import Event, Pod, Terminated, Waiting
from rewards.causes import Cause

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

_OWN: Final = "own"
"""The pod asks for what its namespace does not have: no incident of any node."""

_Verdict = Cause | str

_NO_SUCH_IMAGE = (
    r"not ?found|manifest unknown|repository does not exist|pull access denied|unauthorized|authentication required|"
    r"invalid reference format|couldn't parse image|InvalidImageName|denied:"
)
_NO_SUCH_OBJECT = r"(configmap|secret) .*not found|non-existent (config map|secret) key|couldn't find key"
_NO_SUCH_CLAIM = r"persistentvolumeclaim .*not found|unbound|not bound|non-bound|Multi-Attach"

_EVENTS: tuple[tuple[str, str, _Verdict], ...] = (
    ("FailedMount|FailedMapVolume|FailedAttachVolume", _NO_SUCH_OBJECT, _OWN),
    ("FailedMount|FailedMapVolume|FailedAttachVolume", _NO_SUCH_CLAIM, Cause.CLAIM_UNBOUND),
    ("FailedMount|FailedMapVolume|FailedAttachVolume", "", Cause.VOLUME),
    ("FailedCreatePodSandBox|FailedPodSandBoxStatus|NetworkNotReady", "", Cause.SANDBOX),
    ("Evicted", "", Cause.EVICTED),
    ("Unhealthy", r"^(Liveness|Startup) probe", Cause.PROBE_FAILURE),
    ("InspectFailed", "", Cause.IMAGE_UNKNOWN),
    ("Failed|ErrImageNeverPull", rf"pull.*({_NO_SUCH_IMAGE})", Cause.IMAGE_UNKNOWN),
    ("Failed", r"Failed to pull image", Cause.IMAGE_PULL),
    ("ErrImageNeverPull", "", Cause.IMAGE_PULL),
    ("Failed", _NO_SUCH_OBJECT, _OWN),
)
"""Reason, message, verdict. An empty message fits all."""

_WAITING: tuple[tuple[str, str, _Verdict], ...] = (
    ("InvalidImageName", "", Cause.IMAGE_UNKNOWN),
    ("CreateContainerConfigError", "", _OWN),
    ("ErrImagePull|ImagePullBackOff", _NO_SUCH_IMAGE, Cause.IMAGE_UNKNOWN),
    ("ErrImagePull|ImagePullBackOff|ErrImageNeverPull|RegistryUnavailable", "", Cause.IMAGE_PULL),
)
"""Reason and message of a container that waits. ImagePullBackOff alone does not say why: an Event does."""

_SLACK = timedelta(seconds=2)
"""Events and ends of containers are both stamped by the kubelet, in whole seconds."""


def of_end(container: str, end: Terminated, events: Iterable[Event]) -> Cause | None:
    """PROBE_FAILURE when a liveness or startup probe of the container failed in its last run; None: not told."""
    told = (each for each in events if _is_about(each, container) and _happened_in(each, end))
    return Cause.PROBE_FAILURE if any(_of_event(each) is Cause.PROBE_FAILURE for each in told) else None


def of_start(pod: Pod, events: Iterable[Event]) -> Cause | None:
    """Why it does not start: the newest Event that says, else the container that waits, else that it is stuck.

    None: for want of something of the pod's own.
    """
    newest = sorted(events, key=happened_at, reverse=True)
    waiting = (each.state.waiting for each in containers(pod) if each.state.waiting)
    verdicts = (*map(_of_event, newest), *map(_of_waiting, waiting), Cause.START_STUCK)
    told = next(each for each in verdicts if each and each is not Cause.PROBE_FAILURE)
    return told if isinstance(told, Cause) else None


def happened_at(event: Event) -> datetime:
    """When it was last seen."""
    observed = event.series.last_observed_time if event.series else None
    return observed or event.last_timestamp or event.event_time or event.metadata.creation_timestamp or _LONG_AGO


def _of_event(event: Event) -> _Verdict | None:
    return _first(_EVENTS, event.reason, event.message) if event.type == "Warning" else None


def _of_waiting(waiting: Waiting) -> _Verdict | None:
    return _first(_WAITING, waiting.reason, waiting.message)


def _first(table: Iterable[tuple[str, str, _Verdict]], reason: str, message: str) -> _Verdict | None:
    fits = (v for r, m, v in table if re.fullmatch(r, reason) and re.search(m, message, re.IGNORECASE))
    return next(fits, None)


def _is_about(event: Event, container: str) -> bool:
    path = event.involved_object.field_path
    return not path or path.endswith(f"{{{container}}}")


def _happened_in(event: Event, end: Terminated) -> bool:
    """Unknown times are taken to fit: the Event is of this pod at least."""
    at, began, over = happened_at(event), end.started_at, end.finished_at
    return at is _LONG_AGO or ((began is None or began <= at) and (over is None or at <= over + _SLACK))
