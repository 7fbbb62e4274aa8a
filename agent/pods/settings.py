"""The knobs of following pods. Read once from flags in `leadsman`, then passed down."""

from msgspec import Struct

from agent.pods.incident_ledger import DEFAULT_LIMITS, LedgerLimits
from leadsman.kube.access import ApiAccess


class PodSettings(Struct, frozen=True):
    """api: where pods are listed and watched. account_seconds: how often health is accounted for and stuck pods looked
    for. observe_seconds: between two observations of a pod's own metric or by plugins; 0 switches both off."""

    api: ApiAccess
    limits: LedgerLimits = DEFAULT_LIMITS
    account_seconds: float = 15.0
    observe_seconds: float = 30.0
