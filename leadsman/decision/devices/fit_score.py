"""Scores nodes so that a pod takes devices where fewest are left, and whole nodes stay free for pods that ask for many.

The value is 1 - the share of the node's devices that is free after the pod: of those that its claims select, else of
the first card resource that it asks for. Where its claims cannot be evaluated, all devices that DRA drivers publish
count, before the pod. A pod that asks for less bandwidth than the policy's threshold, or for none, has no use for
SR-IOV: nodes with virtual functions are last for it.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.cluster.devices.claims import NO_DEVICE, RequestedWay, fit_claims
from leadsman.cluster.devices.demand import CARD_RESOURCES, DeviceDemand
from leadsman.cluster.devices.node_devices import NO_DEVICES, NodeDevices
from leadsman.decision.devices.device_filter import asks_link
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo

# What the ResourceClaims of one pod ask, from what is followed of them.


class PodRequests(Struct, frozen=True):
    """The requests of a pod's claims that wait for devices.

    requests: of each, its ways, the preferred one first.
    problem: why nodes cannot be ranked by them; "" when they can.
    """

    requests: tuple[Sequence[RequestedWay], ...] = ()
    problem: str = ""

    @property
    def choices(self) -> tuple[Sequence[RequestedWay], ...]:
        """The requests with several ways (`firstAvailable`)."""
        return tuple(request for request in self.requests if len(request) > 1)

    def text(self) -> str:
        """`2 of class large, else 1 of class small; 1 of class nic`"""
        return "; ".join(
            ", else ".join(f"{'all' if way.count is None else way.count} of {way.selection}" for way in request)
            for request in self.requests
        )


def pod_requests(pod: PodInfo, inputs: DecisionInputs) -> PodRequests:
    """Of its claims, and of the templates from which claims are still to be made."""
    asked, namespace = inputs.devices.asked, pod.namespace
    requests = list[Sequence[RequestedWay]]()
    for table, kind, names in (
        (asked.claims, "ResourceClaim", filter(None, pod.devices.claims)),
        (asked.templates, "ResourceClaimTemplate", pod.devices.templates),
    ):
        for name in names:
            found = table.get(f"{namespace}/{name}")
            if found is None:
                return PodRequests((), f"{kind} {namespace}/{name} is not seen, or was given its devices already")
            requests += found.requests
    for request in requests:
        for way in request:
            if problem := asked.problems.get(way.selection):
                return PodRequests((), f"{way.selection}: {problem}")
    return PodRequests(tuple(requests))


NAME = "tightest-fit"


class FitScore:
    """The score plugin of policy.scores.devices."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight = inputs.policy.scores.devices.weight
        if not weight or not inputs.devices.followed or pod.bad_demand:
            return None
        if pod.devices.claims or pod.devices.containers:
            values = {node: 1.0 - spare for node, spare in _spare_ratios(pod, nodes, inputs).items()}
            unknown = {node: "no device of the kind that the pod asks for" for node in nodes if node not in values}
            return PluginScore(NAME, weight, values, unknown) if values else None
        functions = inputs.policy.devices.virtual_functions
        if not functions or asks_link(pod.devices, inputs):
            return None
        table = inputs.devices.nodes
        having = {node for node in nodes if any(map(table.get(node, NO_DEVICES).allocatable.get, functions))}
        return PluginScore(NAME, weight, {node: float(node not in having) for node in nodes}) if having else None

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """The share of the node's devices that is free after the pod, and what its claims ask."""
        if not inputs.devices.followed or pod.bad_demand:
            return Evidence()
        spare = _spare_ratios(pod, nodes, inputs)
        asked = pod_requests(pod, inputs)
        texts = {"asked of devices": asked.text(), "claims not evaluated": asked.problem}
        return Evidence(
            {"free_devices_ratio": spare} if spare else {}, pod={name: text for name, text in texts.items() if text}
        )


def _spare_ratios(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> dict[str, float]:
    """Of the nodes that have what the pod asks for."""
    asked, extended = pod_requests(pod, inputs), inputs.devices.asked.extended
    ratios = dict[str, float]()
    for name in nodes:
        node = inputs.devices.nodes.get(name, NO_DEVICES)
        ratio = _after_claims(node, asked) if pod.devices.claims else _after_cards(node, pod.devices, extended)
        if ratio is not None:
            ratios[name] = ratio
    return ratios


def _after_claims(node: NodeDevices, asked: PodRequests) -> float | None:
    if asked.requests:
        fit = fit_claims(node, asked.requests)
        return None if fit is None else fit.spare_ratio
    total = sum(driver.total for driver in node.drivers.values())
    free = sum(driver.free for driver in node.drivers.values())
    return free / total if total else None


def _after_cards(node: NodeDevices, demand: DeviceDemand, extended: Mapping[str, str]) -> float | None:
    """By the first card resource that the pod asks for, which a device plugin or a DeviceClass brings."""
    for resource in (*CARD_RESOURCES, *extended):
        amount = demand.amount(resource)
        if amount and (total := node.allocatable.get(resource, 0)):
            return max(0, node.free(resource) - amount) / total
        if amount and (devices := node.selected.get(extended.get(resource, ""), NO_DEVICE)).total:
            return max(0, devices.free - amount) / devices.total
    return None
