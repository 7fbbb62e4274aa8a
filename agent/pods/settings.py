"""The settings of following pods, read once from flags and passed down."""

from msgspec import Struct

from agent.pods.incident_ledger import DEFAULT_LIMITS, LedgerLimits
from leadsman.kube.access import ApiAccess


class PodSettings(Struct, frozen=True):
    """How this node's pods are followed.

    api: where pods are listed and watched.
    limits: of the ledger.
    account_seconds: time between two credits of health, which also look for stuck pods.
    observe_seconds: time between two observations of pods' own metrics and by plugins; 0 switches both off.
    reward_plugins: names of other packages' rewards.
    """

    api: ApiAccess
    limits: LedgerLimits = DEFAULT_LIMITS
    account_seconds: float = 15.0
    observe_seconds: float = 30.0
    reward_plugins: tuple[str, ...] = ()
