"""Names the causes of incidents, and who is blamed for each before nodes are compared."""

from enum import StrEnum


class Blame(StrEnum):
    """Says who is blamed for an incident."""

    NODE = "node"
    APP = "app"
    NOBODY = "nobody"
    """Neither: the incident is recorded and changes no reward."""


class IncidentCause(StrEnum):
    """Says what caused an incident. The value is the name in records, metrics and pages."""

    CRASH = "crash"
    """A container ended by itself with an exit code other than 0."""
    OOM = "oom"
    PROBE_FAILURE = "probe_failure"
    """Killed because its liveness or startup probe failed."""
    EVICTED = "evicted"
    FAILED_PHASE = "failed_phase"
    """Counted when the pod's phase is Failed or Unknown, for no reason named here."""
    START_STUCK = "start_stuck"
    """The pod is bound for long and does not run, for no stated reason."""
    VOLUME = "volume"
    """A volume could not be mounted or attached."""
    SANDBOX = "sandbox"
    IMAGE_PULL = "image_pull"
    """This node could not fetch an image that exists."""
    BIND_REFUSED = "bind_refused"
    BIND_TIMEOUT = "bind_timeout"
    CLAIM_UNBOUND = "claim_unbound"
    """A volume claim that no volume satisfies, on any node."""
    IMAGE_UNKNOWN = "image_unknown"
    """An image that its registry does not have or refuses."""
    CONFIG_ERROR = "config_error"
    """The pod refers to a ConfigMap, a Secret or a key that does not exist, or a container's settings are refused."""
    NEVER_READY = "never_ready"
    """The containers run, and one has never been ready for long."""


PRIOR_BLAME: dict[IncidentCause, Blame] = {
    IncidentCause.CRASH: Blame.APP,
    IncidentCause.OOM: Blame.APP,
    IncidentCause.PROBE_FAILURE: Blame.APP,
    IncidentCause.FAILED_PHASE: Blame.APP,
    IncidentCause.NEVER_READY: Blame.APP,
    IncidentCause.EVICTED: Blame.NODE,
    IncidentCause.START_STUCK: Blame.NODE,
    IncidentCause.VOLUME: Blame.NODE,
    IncidentCause.SANDBOX: Blame.NODE,
    IncidentCause.IMAGE_PULL: Blame.NODE,
    IncidentCause.BIND_REFUSED: Blame.NODE,
    IncidentCause.BIND_TIMEOUT: Blame.NODE,
    IncidentCause.CLAIM_UNBOUND: Blame.NOBODY,
    IncidentCause.IMAGE_UNKNOWN: Blame.NOBODY,
    IncidentCause.CONFIG_ERROR: Blame.NOBODY,
}
"""Before nodes are compared. NODE and APP weigh the same: whether the type fails elsewhere too decides."""


def is_evidence(cause: IncidentCause) -> bool:
    """Tells whether an incident of this cause is evidence about the node."""
    return PRIOR_BLAME[cause] is not Blame.NOBODY
