"""Scores nodes with an accelerator first or last, for a pod that can do without one: by what it gains there.

A pod says so by `leadsman.dev/accelerator: optional`, or by a ResourceClaim with `firstAvailable`: nodes with the
devices that it names first are those with an accelerator then. One that has an accelerator among its resources has no
choice, and is not scored here. With too few runs on either side the policy's prior decides, except for a share of the
pods, chosen by their UID, that try the side that lacks runs: that bounds exploration.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from hashlib import blake2b
from math import exp, sqrt

from msgspec import Struct

from leadsman.cluster.devices.claims import can_have_first_ways, fit_claims
from leadsman.decision.devices.fit_score import pod_requests
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, pod_type_of
from leadsman.kube.names import ACCELERATOR_ANNOTATION
from leadsman.state.snapshot import AgedReward

# How much faster pods of a type run with an accelerator: gain = median run time without / with.
#
# From the run times that agents keep with rewards: a node's geometric mean of its Jobs' run times, weighted by how
# many it saw. A side's median is over its nodes; the interval is of the ratio of both, from how far nodes of one side
# differ.

RUN_SECONDS_QUALITY = "run_seconds"
"""As agent.pods.incident_ledger names it."""

_Z_90 = 1.645
_LEAST_SPREAD = 0.1
"""Of ln(run time): two nodes that agree by chance prove no more."""


class RunTimes(Struct, frozen=True):
    """One side. median_seconds: None without a sample."""

    median_seconds: float | None
    samples: float
    squared_error: float = 0.0


class Gain(Struct, frozen=True):
    """ratio: median run time without / with; None: one side has no sample. low, high: its 90 % interval."""

    with_samples: float
    without_samples: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def estimate_gain(rewards: Mapping[str, AgedReward], accelerated: Set[str]) -> Gain:
    """Of one pod type. accelerated: the nodes that have an accelerator."""
    known = {node: each.reward.qualities.get(RUN_SECONDS_QUALITY) for node, each in rewards.items()}
    costs = {node: (each.log_cost, each.samples) for node, each in known.items() if each is not None}
    having = _run_times(cost for node, cost in costs.items() if node in accelerated)
    lacking = _run_times(cost for node, cost in costs.items() if node not in accelerated)
    if having.median_seconds is None or lacking.median_seconds is None:
        return Gain(having.samples, lacking.samples)
    ratio = lacking.median_seconds / having.median_seconds
    error = exp(_Z_90 * sqrt(having.squared_error + lacking.squared_error))
    return Gain(having.samples, lacking.samples, ratio, ratio / error, ratio * error)


def _run_times(costs: Iterable[tuple[float, float]]) -> RunTimes:
    """costs: ln(seconds) and samples of each node."""
    ranked = sorted(costs)
    total = sum(samples for _, samples in ranked)
    if not total:
        return RunTimes(None, 0.0)
    median, below = ranked[-1][0], 0.0
    for log_seconds, samples in ranked:
        below += samples
        if below >= total / 2:
            median = log_seconds
            break
    mean = sum(log_seconds * samples for log_seconds, samples in ranked) / total
    spread = sum(samples * (log_seconds - mean) ** 2 for log_seconds, samples in ranked) / total
    return RunTimes(exp(median), total, max(spread, _LEAST_SPREAD**2) / total)


def gain_text(gain: Gain) -> str:
    """`gain 2.1 (1.8 to 2.4; 30 runs with, 25 without)`."""
    counts = f"{gain.with_samples:.0f} runs with, {gain.without_samples:.0f} without"
    if gain.ratio is None or gain.low is None or gain.high is None:
        return f"gain unknown ({counts})"
    return f"gain {gain.ratio:.2f} ({gain.low:.2f} to {gain.high:.2f}; {counts})"


NAME = "accelerator"
OPTIONAL = "optional"


class Option(Struct, frozen=True):
    """What the pod may have, or do without.

    name: as in "nodes with an accelerator first". having: the nodes that have it. free_on: those that have it free.
    """

    name: str
    having: Set[str]
    free_on: Set[str]


class Choice(Struct, frozen=True):
    """Whether nodes with the option come first, and why."""

    option: Option
    option_first: bool
    reason: str
    gain: Gain


class GainScore:
    """The score plugin of policy.scores.accelerator."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight = inputs.policy.scores.accelerator.weight
        choice = choose(pod, inputs) if weight else None
        if choice is None:
            return None
        free_on, first = choice.option.free_on, choice.option_first
        return PluginScore(NAME, weight, {node: float((node in free_on) is first) for node in nodes})

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Says why nodes with an accelerator come first or last."""
        choice = choose(pod, inputs)
        return Evidence() if choice is None else Evidence(notes=dict.fromkeys(nodes, choice.reason))


def choose(pod: PodInfo, inputs: DecisionInputs) -> Choice | None:
    """None: the pod has no choice."""
    option = _option(pod, inputs)
    if option is None:
        return None
    settings = inputs.policy.devices
    gain = estimate_gain(inputs.snapshot.rewards.get(pod_type_of(pod), {}), option.having)
    enough = min(gain.with_samples, gain.without_samples) >= settings.gain_min_samples
    if gain.ratio is not None and enough:
        first = gain.ratio >= settings.gain_threshold
        why = f"{gain_text(gain)} is {'at or above' if first else 'below'} {settings.gain_threshold:g}"
    elif _draw(pod) < settings.gain_explore_ratio:
        first = gain.with_samples < gain.without_samples
        why = f"{gain_text(gain)}: this pod tries what has fewer runs"
    else:
        first = settings.gain_prior >= settings.gain_threshold
        why = f"{gain_text(gain)}: too few runs; the policy's prior is {settings.gain_prior:g}"
    return Choice(option, first, f"nodes {'with' if first else 'without'} {option.name} first: {why}", gain)


def _option(pod: PodInfo, inputs: DecisionInputs) -> Option | None:
    devices, accelerators = inputs.devices, inputs.policy.devices.accelerators
    if not devices.followed or any(map(pod.devices.amount, accelerators)):
        return None
    if choices := pod_requests(pod, inputs).choices:
        having = {name for name, node in devices.nodes.items() if can_have_first_ways(node, choices)}
        fits = {name: fit_claims(devices.nodes[name], choices) for name in having}
        free_on = {name for name, fit in fits.items() if fit is not None and fit.has_first_ways}
        return Option(" and ".join(first.selection for first, *_ in choices), having, free_on)
    if pod.annotations.get(ACCELERATOR_ANNOTATION, "").strip() == OPTIONAL:
        selections = [devices.asked.extended[each] for each in accelerators if each in devices.asked.extended]
        having = {
            name
            for name, node in devices.nodes.items()
            if any(map(node.allocatable.get, accelerators)) or any(map(node.selected.get, selections))
        }
        return Option("an accelerator", having, having)
    return None


def _draw(pod: PodInfo) -> float:
    """A number 0..1, always the same for this pod."""
    seed = f"{pod.uid or pod.namespace + '/' + pod.name} {NAME}"
    return int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) / 2**64
