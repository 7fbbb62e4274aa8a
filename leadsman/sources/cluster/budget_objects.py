"""PodDisruptionBudgets, ResourceQuotas and Namespaces."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.budgets import DisruptionBudget, Quota, QuotaScope
from leadsman.cluster.resources import Resources
from leadsman.sources.cluster.object_metadata import MetadataFields
from leadsman.sources.cluster.pod_fields import ResourceList
from leadsman.sources.cluster.selector_fields import LabelSelectorFields


class _Fields(Struct, frozen=True, gc=False, rename="camel"):
    pass


class _BudgetSpec(_Fields, frozen=True):
    selector: LabelSelectorFields | None = None
    unhealthy_pod_eviction_policy: str = ""


class _BudgetStatus(_Fields, frozen=True):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class BudgetObject(Struct, frozen=True, gc=False):
    """A PodDisruptionBudget of policy/v1."""

    metadata: MetadataFields
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()

    @property
    def model(self) -> DisruptionBudget:
        return DisruptionBudget(
            namespace=self.metadata.namespace,
            name=self.metadata.name,
            selector=None if self.spec.selector is None else self.spec.selector.selector(),
            disruptions_allowed=self.status.disruptions_allowed,
            expected_pods=self.status.expected_pods,
            current_healthy=self.status.current_healthy,
            desired_healthy=self.status.desired_healthy,
            observed=self.status.observed_generation >= self.metadata.generation,
            unhealthy_always=self.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        )


class _ScopeFields(_Fields, frozen=True):
    scope_name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class _ScopeSelector(_Fields, frozen=True):
    match_expressions: tuple[_ScopeFields, ...] = ()


class _QuotaSpec(_Fields, frozen=True):
    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: _ScopeSelector = _ScopeSelector()


class _QuotaStatus(_Fields, frozen=True):
    hard: ResourceList = {}
    used: ResourceList = {}


class QuotaObject(Struct, frozen=True, gc=False):
    """A ResourceQuota."""

    metadata: MetadataFields
    spec: _QuotaSpec = _QuotaSpec()
    status: _QuotaStatus = _QuotaStatus()

    @property
    def model(self) -> Quota:
        by_selector = self.spec.scope_selector.match_expressions
        return Quota(
            self.metadata.namespace,
            self.metadata.name,
            _amounts(self.spec.hard),
            _amounts(self.status.used),
            (
                *(QuotaScope(name) for name in self.spec.scopes),
                *(QuotaScope(each.scope_name, each.operator, each.values) for each in by_selector),
            ),
        )


class NamespaceObject(Struct, frozen=True, gc=False):
    """A Namespace, of which the labels count."""

    metadata: MetadataFields

    @property
    def model(self) -> Mapping[str, str]:
        return self.metadata.labels


def _amounts(quantities: ResourceList) -> Mapping[str, int]:
    return dict(_amount(name, quantity) for name, quantity in quantities.items())


def _amount(name: str, quantity: str | int | float) -> tuple[str, int]:
    """`cpu` and `requests.cpu` are one thing; CPU is counted in millis."""
    full = f"requests.{name}" if name in ("cpu", "memory", "ephemeral-storage") else name
    resource = "cpu" if full.endswith(".cpu") else "units"
    return full, Resources.of({resource: quantity}).amount(resource)
