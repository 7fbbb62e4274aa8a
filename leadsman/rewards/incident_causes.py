"""Names the causes of incidents, and those for which neither node nor app is blamed."""

from enum import StrEnum


class IncidentCause(StrEnum):
    """Says what caused an incident. The value is the name in records, metrics and pages."""

    CRASH = "crash"
    """A container ended by itself with an exit code other than 0."""
    OOM = "oom"
    PROBE_FAILURE = "probe_failure"
    """Killed because its liveness or startup probe failed."""
    EVICTED = "evicted"
    FAILED_PHASE = "failed_phase"
    """Counted when the pod's phase is Failed, for no reason named here."""
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


BLAMES_NOBODY = frozenset({IncidentCause.CLAIM_UNBOUND, IncidentCause.IMAGE_UNKNOWN, IncidentCause.CONFIG_ERROR})
"""The incident is recorded and changes no reward. Of any other, whether the type fails elsewhere too says who is to
blame."""
