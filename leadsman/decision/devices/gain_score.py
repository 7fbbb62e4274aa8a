"""Scores nodes with an accelerator first or last, for a pod that can do without one: by what it gains there.

A pod says so by `leadsman.dev/accelerator: optional`. One that has an accelerator among its resources has no choice,
and is not scored here. With too few runs on either side the policy's prior decides, except for a share of the pods,
chosen by their UID, that try the side that lacks runs: that bounds exploration.
"""

from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from leadsman.decision.devices.gain import Gain, estimate_gain, gain_text
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.pod_type import pod_type_of
from leadsman.kube.names import ACCELERATOR_ANNOTATION

NAME = "accelerator"
OPTIONAL = "optional"


class Choice(Struct, frozen=True):
    """Whether nodes with an accelerator come first, and why."""

    accelerated_first: bool
    reason: str
    gain: Gain


class GainScore:
    """The score plugin of policy.scores.accelerator."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight = inputs.policy.scores.accelerator.weight
        if not weight or not _has_choice(pod, inputs):
            return None
        first = choose(pod, inputs).accelerated_first
        return PluginScore(NAME, weight, {node: float(_is_accelerated(node, inputs) is first) for node in nodes})

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Why nodes with an accelerator come first or last."""
        if not _has_choice(pod, inputs):
            return Evidence()
        return Evidence(notes=dict.fromkeys(nodes, choose(pod, inputs).reason))


def choose(pod: PodInfo, inputs: DecisionInputs) -> Choice:
    """For a pod that has the choice."""
    settings = inputs.policy.devices
    accelerated = {node for node in inputs.devices.nodes if _is_accelerated(node, inputs)}
    gain = estimate_gain(inputs.snapshot.rewards.get(pod_type_of(pod), {}), accelerated)
    enough = min(gain.with_samples, gain.without_samples) >= settings.gain_min_samples
    if gain.ratio is not None and enough:
        first = gain.ratio >= settings.gain_threshold
        comparison = "at or above" if first else "below"
        return Choice(first, _reason(first, f"{gain_text(gain)} is {comparison} {settings.gain_threshold:g}"), gain)
    fewer_with = gain.with_samples < gain.without_samples
    if _draw(pod) < settings.gain_explore_ratio:
        return Choice(fewer_with, _reason(fewer_with, f"{gain_text(gain)}: this pod tries what has fewer runs"), gain)
    first, prior = settings.gain_prior >= settings.gain_threshold, settings.gain_prior
    return Choice(first, _reason(first, f"{gain_text(gain)}: too few runs; the policy's prior is {prior:g}"), gain)


def _reason(accelerated_first: bool, why: str) -> str:
    return f"nodes {'with' if accelerated_first else 'without'} an accelerator first: {why}"


def _has_choice(pod: PodInfo, inputs: DecisionInputs) -> bool:
    optional = pod.annotations.get(ACCELERATOR_ANNOTATION, "").strip() == OPTIONAL
    return optional and inputs.devices.followed and not any(map(pod.devices.amount, inputs.policy.devices.accelerators))


def _is_accelerated(node: str, inputs: DecisionInputs) -> bool:
    devices = inputs.devices.nodes.get(node)
    return devices is not None and any(map(devices.allocatable.get, inputs.policy.devices.accelerators))


def _draw(pod: PodInfo) -> float:
    """A number 0..1, always the same for this pod."""
    seed = f"{pod.uid or pod.namespace + '/' + pod.name} {NAME}"
    return int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) / 2**64
