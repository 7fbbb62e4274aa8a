"""Models budgets, which limit disruptions, and quotas, which limit a namespace."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.selectors import LabelSelector


class DisruptionBudget(Struct, frozen=True, omit_defaults=True):
    """A PodDisruptionBudget limits evictions.

    selector: None: no pod.
    disruptions_allowed: evictions that are allowed now. 0 also when the disruption controller has not looked yet.
    observed: whether status is of this generation; if not, no eviction is allowed.
    unhealthy_always: unhealthyPodEvictionPolicy AlwaysAllow: pods that are not ready may be evicted in any case.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed: bool = True
    unhealthy_always: bool = False

    def covers(self, pod: ClusterPod) -> bool:
        """Tells whether the budget limits the evictions of this pod."""
        return pod.namespace == self.namespace and self.selector is not None and self.selector.matches(pod.labels)


class QuotaScope(Struct, frozen=True, omit_defaults=True):
    """Restricts a quota to pods of this scope. name: Terminating, NotTerminating, BestEffort, NotBestEffort,
    PriorityClass or CrossNamespacePodAffinity. operator, values: of PriorityClass."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class Quota(Struct, frozen=True, omit_defaults=True):
    """A ResourceQuota, which limits what the pods of a namespace use.

    hard, used: what it limits → amount, as the quota names it: `pods`, `requests.cpu` in millis, `limits.memory` in
    bytes, `requests.example.com/gpu`. `cpu` and `memory` stand as `requests.cpu` and `requests.memory`.
    scopes: it counts only pods to which all of these apply.
    """

    namespace: str
    name: str
    hard: Mapping[str, int] = {}
    used: Mapping[str, int] = {}
    scopes: tuple[QuotaScope, ...] = ()
