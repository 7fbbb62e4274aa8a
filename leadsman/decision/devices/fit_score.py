"""Scores nodes so that a pod takes devices where fewest are left, and whole nodes stay free for pods that ask for many.

The value is 1 - the share of the node's devices that is free. A pod that asks for less bandwidth than the policy's
threshold, or for none, has no use for SR-IOV: nodes with virtual functions are last for it.
"""

from collections.abc import Sequence

from leadsman.decision.devices.evaluation import DeviceEvaluation, asks_link, evaluate
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo

NAME = "tightest-fit"


class FitScore:
    """The score plugin of policy.scores.devices."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight = inputs.policy.scores.devices.weight
        if not weight or not inputs.devices.followed or pod.bad_demand:
            return None
        if pod.devices.claims or pod.devices.containers:
            values = _tightness(evaluate(pod, nodes, inputs))
            unknown = {node: "no device of the kind that the pod asks for" for node in nodes if node not in values}
            return PluginScore(NAME, weight, values, unknown) if values else None
        if not inputs.policy.devices.virtual_functions or asks_link(pod.devices, inputs):
            return None
        fits = evaluate(pod, nodes, inputs).by_node
        if not any(fit.has_functions for fit in fits.values()):
            return None
        return PluginScore(NAME, weight, {node: float(not fit.has_functions) for node, fit in fits.items()})

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """The share of the node's devices that is free after the pod."""
        if not inputs.devices.followed or pod.bad_demand:
            return Evidence()
        fits = evaluate(pod, nodes, inputs).by_node
        spare = {node: fit.spare_ratio for node, fit in fits.items() if fit.spare_ratio is not None}
        return Evidence({"free_devices_ratio": spare}) if spare else Evidence()


def _tightness(evaluation: DeviceEvaluation) -> dict[str, float]:
    return {node: 1.0 - fit.spare_ratio for node, fit in evaluation.by_node.items() if fit.spare_ratio is not None}
