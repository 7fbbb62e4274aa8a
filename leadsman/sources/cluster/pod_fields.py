"""The fields of a pod's spec that kube-scheduler looks at, and what they mean in the model."""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from leadsman.cluster.constraints import (
    ANY_ADDRESS,
    HostPort,
    PodAffinityTerm,
    PodConstraints,
    Toleration,
    TopologySpread,
)
from leadsman.cluster.resources import ContainerRequest, Resources, pod_requests
from leadsman.cluster.selectors import LabelSelector, Operator, Requirement
from leadsman.sources.cluster.selector_fields import LabelSelectorFields, NodeSelectorFields

ResourceList = Mapping[str, str | int | float]


class _Fields(Struct, frozen=True, gc=False, rename="camel"):
    pass


class ResourceFields(_Fields, frozen=True):
    requests: ResourceList = {}


class PortFields(_Fields, frozen=True):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class ContainerFields(_Fields, frozen=True):
    name: str = ""
    resources: ResourceFields = ResourceFields()
    ports: tuple[PortFields, ...] = ()
    restart_policy: str = ""


class ContainerStatusFields(_Fields, frozen=True):
    name: str = ""
    resources: ResourceFields | None = None
    allocated_resources: ResourceList | None = None

    def allocated(self) -> Resources | None:
        """What the kubelet has set aside or set up for the container, the larger of each; None: it says neither."""
        if self.resources is None and self.allocated_resources is None:
            return None
        actuated = Resources.of(self.resources.requests if self.resources else {})
        return actuated.maximum(Resources.of(self.allocated_resources or {}))


class NodeAffinityFields(_Fields, frozen=True):
    required: NodeSelectorFields | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTermFields(_Fields, frozen=True):
    topology_key: str
    label_selector: LabelSelectorFields | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelectorFields | None = None

    def term(self, namespace: str) -> PodAffinityTerm:
        own = () if self.namespaces or self.namespace_selector is not None else (namespace,)
        return PodAffinityTerm(
            self.topology_key,
            None if self.label_selector is None else self.label_selector.selector(),
            (*self.namespaces, *own),
            None if self.namespace_selector is None else self.namespace_selector.selector(),
        )


class PodAffinityFields(_Fields, frozen=True):
    required: tuple[PodAffinityTermFields, ...] = field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )

    def terms(self, namespace: str) -> tuple[PodAffinityTerm, ...]:
        return tuple(each.term(namespace) for each in self.required)


class AffinityFields(_Fields, frozen=True):
    node_affinity: NodeAffinityFields = NodeAffinityFields()
    pod_affinity: PodAffinityFields = PodAffinityFields()
    pod_anti_affinity: PodAffinityFields = PodAffinityFields()


class TopologySpreadFields(_Fields, frozen=True):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelectorFields | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"

    def constraint(self, labels: Mapping[str, str]) -> TopologySpread:
        return TopologySpread(
            self.topology_key,
            self.max_skew,
            self._selector(labels),
            self.min_domains,
            self.node_affinity_policy == "Honor",
            self.node_taints_policy == "Honor",
        )

    def _selector(self, labels: Mapping[str, str]) -> LabelSelector | None:
        """The pod's own value of each key in match_label_keys is asked for too; a key that it lacks is ignored."""
        if self.label_selector is None:
            return None
        given = self.label_selector.selector().requirements
        own = ((key, labels[key]) for key in self.match_label_keys if key in labels)
        merged = (Requirement(key, Operator.IN, (value,)) for key, value in own)
        return LabelSelector((*given, *(each for each in merged if each not in given)))


class ResourceClaimFields(_Fields, frozen=True):
    """A claim in the pod's spec, and the status of one that was made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class TemplateFields(_Fields, frozen=True):
    """What the pods of one template have in common; everything that decides their constraints and requests."""

    containers: tuple[ContainerFields, ...] = ()
    init_containers: tuple[ContainerFields, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceFields = ResourceFields()
    node_selector: Mapping[str, str] = {}
    affinity: AffinityFields = AffinityFields()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadFields, ...] = ()

    def constraints(self, namespace: str, labels: Mapping[str, str]) -> PodConstraints:
        """What they require of their node. labels: of the pod, for match_label_keys."""
        required = self.affinity.node_affinity.required
        return PodConstraints(
            node_selector=tuple(sorted(self.node_selector.items())),
            node_affinity=None if required is None else required.terms(),
            tolerations=self.tolerations,
            affinity=self.affinity.pod_affinity.terms(namespace),
            anti_affinity=self.affinity.pod_anti_affinity.terms(namespace),
            spread=tuple(
                each.constraint(labels)
                for each in self.topology_spread_constraints
                if each.when_unsatisfiable == "DoNotSchedule"
            ),
            host_ports=tuple(self._host_ports()),
        )

    def _host_ports(self) -> Iterator[HostPort]:
        sidecars = (each for each in self.init_containers if each.restart_policy == "Always")
        for container in (*self.containers, *sidecars):
            for port in container.ports:
                if port.host_port > 0:
                    yield HostPort(port.host_port, port.protocol or "TCP", port.host_ip or ANY_ADDRESS)

    def requests(self, allocated: Mapping[str, Resources], *, resize_is_infeasible: bool = False) -> Resources:
        """What kube-scheduler counts. allocated: container → what the kubelet reports of it."""
        pod_level = Resources.of({name: amount for name, amount in self.resources.requests.items() if _pod_level(name)})
        return pod_requests(
            [_request(each, allocated, resize_is_infeasible) for each in self.containers],
            [_request(each, allocated, resize_is_infeasible) for each in self.init_containers],
            Resources.of(self.overhead),
            dict(pod_level.items()),
        )


def _request(container: ContainerFields, allocated: Mapping[str, Resources], infeasible: bool) -> ContainerRequest:
    held = allocated.get(container.name)
    asked = held if infeasible and held is not None else Resources.of(container.resources.requests)
    return ContainerRequest(asked, held, container.restart_policy == "Always")


def _pod_level(resource: str) -> bool:
    """Resources that can be requested for the pod as a whole: KEP-2837."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")
