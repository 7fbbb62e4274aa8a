"""Models what a pod's spec demands of its node, apart from resources and volumes.

Labels match selectors as in the API: k8s.io/apimachinery/pkg/labels/selector.go.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class Operator(StrEnum):
    """Says how a requirement compares a label. Gt and Lt compare integers; only node affinity has them."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(Struct, frozen=True, omit_defaults=True):
    """Requires something of one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tells whether these labels fulfil the requirement. A label that is absent fulfils NotIn."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        try:
            number, limit = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return number > limit if self.operator is Operator.GT else number < limit


class LabelSelector(Struct, frozen=True, omit_defaults=True):
    """Matches what fulfils every requirement; an empty one matches everything. An absent selector matches nothing."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tells whether these labels fulfil every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


class NodeSelectorTerm(Struct, frozen=True, omit_defaults=True):
    """Requires labels and a name (matchFields) of a node. A term without any requirement matches no node."""

    labels: tuple[Requirement, ...] = field(default=(), name="matchExpressions")
    fields: tuple[Requirement, ...] = field(default=(), name="matchFields")

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tells whether the node of this name and these labels fulfils every requirement."""
        if not self.labels and not self.fields:
            return False
        names = {"metadata.name": name}
        return all(each.matches(labels) for each in self.labels) and all(each.matches(names) for each in self.fields)


class Taint(Struct, frozen=True, omit_defaults=True):
    """A taint, which keeps pods off a node. effect: NoSchedule, NoExecute or PreferNoSchedule."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(Struct, frozen=True, omit_defaults=True):
    """Lets a pod tolerate taints. key: "": every key; effect: "": every effect; operator: Equal or Exists."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Tells whether the taint is tolerated, as ToleratesTaint of k8s.io/api/core/v1/toleration.go."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or ((self.operator or "Equal") == "Equal" and self.value == taint.value)


class PodAffinityTerm(Struct, frozen=True, omit_defaults=True):
    """Names pods to be with, or to be away from, in one domain of `topology_key`.

    namespaces: resolved: the pod's own when the term names none and has no namespace_selector.
    namespace_selector: pods in namespaces with such labels count too; empty: in every namespace.
    selector: None: no pod.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Tells whether the term means the pod of this namespace and these labels."""
        if self.selector is None or not self.selector.matches(labels):
            return False
        by_selector = self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        return by_selector or namespace in self.namespaces


class TopologySpread(Struct, frozen=True, omit_defaults=True):
    """Spreads pods over domains: a topology spread constraint of DoNotSchedule.

    selector: with matchLabelKeys merged into it; None: no pod.
    honor_affinity, honor_taints: whether domains are counted only on nodes that pass the pod's own node affinity, and
    its tolerations.
    """

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


ANY_ADDRESS = "0.0.0.0"


class HostPort(Struct, frozen=True, omit_defaults=True):
    """A port of the node that a pod takes. ip: the address of the node; ANY_ADDRESS: every one."""

    port: int
    protocol: str = "TCP"
    ip: str = ANY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Tells whether both ports cannot be on one node."""
        same = (self.port, self.protocol) == (other.port, other.protocol)
        return same and (self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip))


class PodConstraints(Struct, frozen=True, weakref=True, omit_defaults=True):
    """Everything that a pod's spec requires of its node, without preferences. Pods of one template share one object.

    node_selector: label → value, all of which the node has.
    node_affinity: at least one term matches; None: no such demand.
    spread: those of DoNotSchedule.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    host_ports: tuple[HostPort, ...] = ()


UNCONSTRAINED = PodConstraints()
