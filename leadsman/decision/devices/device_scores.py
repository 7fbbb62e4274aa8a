"""Scores nodes by their devices: the tightest fit first, and accelerators for the pods that gain by one.

The tightest fit is 1 - the share of the node's devices that is free after the pod: of those that its claims select,
else of the first card resource that it asks for. So whole nodes stay free for pods that ask for many. Where its claims
cannot be evaluated, all devices that DRA drivers publish count, before the pod. A pod that asks for less bandwidth than
the policy's threshold, or for none, has no use for SR-IOV: nodes with virtual functions are last for it.

Nodes with an accelerator are first or last for a pod that can do without one: by what it gains there. It says so by
`leadsman.dev/accelerator: optional`, or by a ResourceClaim with `firstAvailable`: nodes with the devices that it names
first are those with an accelerator then. One that has an accelerator among its resources has no choice, and is not
scored. With too few runs on either side the policy's prior decides, except for a share of the pods, chosen by their
UID, that try the side that lacks runs: that bounds exploration.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from math import exp, sqrt
from typing import NamedTuple

from msgspec import Struct

from leadsman.cluster.devices.demand import CARD_RESOURCES, DeviceDemand
from leadsman.cluster.devices.node_devices import (
    NO_DEVICE,
    NO_DEVICES,
    NodeDevices,
    RequestedWay,
    can_have_first_ways,
    fit_claims,
)
from leadsman.decision.devices.device_filter import asks_link
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, draw, pod_type_of
from leadsman.kube.names import ACCELERATOR_ANNOTATION
from leadsman.state.snapshot import AgedReward

# What the ResourceClaims of one pod ask, from what is followed of them.


class PodRequests(Struct, frozen=True):
    """Says what the pod's unallocated claims request of devices.

    requests: of each, its ways, the preferred one first.
    problem: why nodes cannot be ranked by them; "" when they can.
    """

    requests: tuple[Sequence[RequestedWay], ...] = ()
    problem: str = ""

    def text(self) -> str:
        """Writes the requests like `2 of class large, else 1 of class small; 1 of class nic`."""
        return "; ".join(
            ", else ".join(f"{'all' if way.count is None else way.count} of {way.selection}" for way in request)
            for request in self.requests
        )


def pod_requests(pod: PodInfo, inputs: DecisionInputs) -> PodRequests:
    """Collects the requests of the pod's claims, and of the templates from which claims are still to be made."""
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


TIGHTEST_FIT = "tightest-fit"


class FitScore:
    """Prefers nodes on which the pod leaves the fewest devices free: the score of policy.scores.devices."""

    name = TIGHTEST_FIT

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight = inputs.policy.scores.devices.weight
        if not weight or not inputs.devices.followed or pod.bad_demand:
            return None
        if pod.devices.claims or pod.devices.containers:
            values = {node: 1.0 - spare for node, spare in _spare_ratios(pod, nodes, inputs).items()}
            unknown = {node: "no device of the kind that the pod asks for" for node in nodes if node not in values}
            return PluginScore(TIGHTEST_FIT, weight, values, unknown) if values else None
        functions = inputs.policy.devices.virtual_functions
        if not functions or asks_link(pod.devices, inputs):
            return None
        table = inputs.devices.nodes
        having = {node for node in nodes if any(map(table.get(node, NO_DEVICES).allocatable.get, functions))}
        return (
            PluginScore(TIGHTEST_FIT, weight, {node: float(node not in having) for node in nodes}) if having else None
        )

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns the share of each node's devices that is free after the pod, and what its claims ask."""
        if not inputs.devices.followed or pod.bad_demand:
            return Evidence()
        spare = _spare_ratios(pod, nodes, inputs)
        asked = pod_requests(pod, inputs)
        texts = {"asked of devices": asked.text(), "claims not evaluated": asked.problem}
        return Evidence(
            {"free_devices_ratio": spare} if spare else {}, pod={name: text for name, text in texts.items() if text}
        )


def _spare_ratios(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> dict[str, float]:
    """Maps each node that has what the pod asks for to the share of its devices that stays free beside the pod."""
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
    """Returns the share that stays free of the first card resource that the pod asks for, by device plugin or
    DeviceClass."""
    for resource in (*CARD_RESOURCES, *extended):
        amount = demand.amount(resource)
        if amount and (total := node.allocatable.get(resource, 0)):
            return max(0, node.free(resource) - amount) / total
        if amount and (devices := node.selected.get(extended.get(resource, ""), NO_DEVICE)).total:
            return max(0, devices.free - amount) / devices.total
    return None


# How much faster pods of a type run with an accelerator: gain = median run time without / with.
#
# From the run times that agents keep with rewards: a node's geometric mean of its Jobs' run times, weighted by how
# many it saw. A side's median is over its nodes; the interval is of the ratio of both, from how far nodes of one side
# differ.

RUN_SECONDS_QUALITY = "run_seconds"
"""The quality that holds how long pods ran, by the name that agent.pods.incident_ledger gives it."""

_MAX_LOG_SECONDS = 30.0
"""No Job ran for longer, 300,000 years, or for less than the inverse, whatever a record says."""

_Z_90 = 1.645
_LEAST_SPREAD = 0.1
"""The spread of ln(run time) is taken to be at least this: two nodes that agree by chance prove no more."""


class Gain(Struct, frozen=True):
    """Says how much faster a pod type runs with an accelerator. ratio: median run time without / with; None: one side
    has no sample. low, high: its 90 % interval."""

    with_samples: float
    without_samples: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def estimate_gain(rewards: Mapping[str, AgedReward], accelerated: Set[str]) -> Gain:
    """Estimates the gain of one pod type. accelerated: the nodes that have an accelerator."""
    known = {node: each.reward.qualities.get(RUN_SECONDS_QUALITY) for node, each in rewards.items()}
    costs = {
        node: (max(-_MAX_LOG_SECONDS, min(_MAX_LOG_SECONDS, each.log_cost)), each.samples)
        for node, each in known.items()
        if each is not None
    }
    having, with_samples, having_error = _run_times(cost for node, cost in costs.items() if node in accelerated)
    lacking, without_samples, lacking_error = _run_times(
        cost for node, cost in costs.items() if node not in accelerated
    )
    if not having or not lacking:
        return Gain(with_samples, without_samples)
    ratio, error = lacking / having, exp(min(_MAX_LOG_SECONDS, _Z_90 * sqrt(having_error + lacking_error)))
    return Gain(with_samples, without_samples, ratio, ratio / error, ratio * error)


def _run_times(costs: Iterable[tuple[float, float]]) -> tuple[float, float, float]:
    """Returns the median in seconds, 0 without a sample; how many samples there are; and the squared error of
    ln(median).
    costs: ln(seconds) and samples of each node."""
    ranked = sorted(costs)
    total = sum(samples for _, samples in ranked)
    if not total:
        return 0.0, 0.0, 0.0
    median, below = ranked[-1][0], 0.0
    for log_seconds, samples in ranked:
        below += samples
        if below >= total / 2:
            median = log_seconds
            break
    mean = sum(log_seconds * samples for log_seconds, samples in ranked) / total
    spread = sum(samples * (log_seconds - mean) ** 2 for log_seconds, samples in ranked) / total
    return exp(median), total, max(spread, _LEAST_SPREAD**2) / total


def gain_text(gain: Gain) -> str:
    """Writes a gain like `gain 2.1 (1.8 to 2.4; 30 runs with, 25 without)`."""
    counts = f"{gain.with_samples:.0f} runs with, {gain.without_samples:.0f} without"
    if gain.ratio is None or gain.low is None or gain.high is None:
        return f"gain unknown ({counts})"
    return f"gain {gain.ratio:.2f} ({gain.low:.2f} to {gain.high:.2f}; {counts})"


ACCELERATOR, OPTIONAL = "accelerator", "optional"


class GainScore:
    """Puts nodes with an accelerator first or last for a pod that can do without: policy.scores.accelerator."""

    name = ACCELERATOR

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight = inputs.policy.scores.accelerator.weight
        choice = choose(pod, inputs) if weight else None
        if choice is None:
            return None
        free_on, first, _ = choice
        return PluginScore(ACCELERATOR, weight, {node: float((node in free_on) is first) for node in nodes})

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Says why nodes with an accelerator come first or last."""
        choice = choose(pod, inputs)
        return Evidence() if choice is None else Evidence(notes=dict.fromkeys(nodes, choice.reason))


class Choice(NamedTuple):
    """Says whether nodes with the accelerator come first, and why. free_on: the nodes that have one free."""

    free_on: Set[str]
    option_first: bool
    reason: str


def choose(pod: PodInfo, inputs: DecisionInputs) -> Choice | None:
    """Chooses whether nodes with an accelerator come first; None: the pod has no choice."""
    option = _option(pod, inputs)
    if option is None:
        return None
    name, having, free_on = option
    settings = inputs.policy.devices
    rewards = inputs.snapshot.rewards.get(pod_type_of(pod), {})
    if inputs.node_roles:  # of a node that is gone, whose records stay, nobody knows what it had
        rewards = {node: each for node, each in rewards.items() if node in inputs.node_roles}
    gain = estimate_gain(rewards, having)
    enough = min(gain.with_samples, gain.without_samples) >= settings.gain_min_samples
    if gain.ratio is not None and enough:
        first = gain.ratio >= settings.gain_threshold
        why = f"{gain_text(gain)} is {'at or above' if first else 'below'} {settings.gain_threshold:g}"
    elif draw(pod, ACCELERATOR) < settings.gain_explore_ratio:
        first = gain.with_samples < gain.without_samples
        why = f"{gain_text(gain)}: this pod tries what has fewer runs"
    else:
        first = settings.gain_prior >= settings.gain_threshold
        why = f"{gain_text(gain)}: too few runs; the policy's prior is {settings.gain_prior:g}"
    return Choice(free_on, first, f"nodes {'with' if first else 'without'} {name} first: {why}")


def _option(pod: PodInfo, inputs: DecisionInputs) -> tuple[str, Set[str], Set[str]] | None:
    """Returns what the pod may have or do without, as in "nodes with an accelerator"; the nodes that have it; and, of a
    choice of claims, those of them that have it free."""
    devices, accelerators = inputs.devices, inputs.policy.devices.accelerators
    if not devices.followed or any(map(pod.devices.amount, accelerators)):
        return None
    if choices := [request for request in pod_requests(pod, inputs).requests if len(request) > 1]:
        having = {name for name, node in devices.nodes.items() if can_have_first_ways(node, choices)}
        fits = {name: fit_claims(devices.nodes[name], choices) for name in having}
        free_on = {name for name, fit in fits.items() if fit is not None and fit.has_first_ways}
        return " and ".join(first.selection for first, *_ in choices), having, free_on
    if pod.annotations.get(ACCELERATOR_ANNOTATION, "").strip() == OPTIONAL:
        selections = [devices.asked.extended[each] for each in accelerators if each in devices.asked.extended]
        having = {
            name
            for name, node in devices.nodes.items()
            if any(map(node.allocatable.get, accelerators)) or any(map(node.selected.get, selections))
        }
        return "an accelerator", having, having
    return None
