"""Refuses nodes on which no single device, or no link, has what the pod asks of one.

A pod that asks for neither passes, and so does every pod while devices are not followed. One whose annotation cannot be
read, or asks for what nobody counts, is refused everywhere: it asked for something. So is one while nobody knows what
is reserved for other pods, because two replicas must never give the same away.
"""

from collections.abc import Mapping, Sequence

from leadsman.decision.devices.evaluation import NAME, evaluate, largest_left, needs_reservation, unserved_bandwidth
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PodInfo, Refusal


class DeviceFilter:
    """The filter plugin of devices."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        if not inputs.devices.followed:
            return {}
        if pod.bad_demand:
            return dict.fromkeys(nodes, Refusal(NAME, pod.bad_demand))
        if not needs_reservation(pod, inputs):
            return {}
        if inputs.devices.reservations_problem:
            return dict.fromkeys(nodes, Refusal(NAME, inputs.devices.reservations_problem))
        fits = evaluate(pod, nodes, inputs)
        return {node: fit.refusal for node, fit in fits.items() if fit.refusal is not None}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """What one device or link has left, where it is known."""
        if not inputs.devices.followed:
            return Evidence()
        unserved = unserved_bandwidth(pod, inputs)
        of_pod = {"bandwidth": unserved} if unserved else {}
        if not needs_reservation(pod, inputs):
            return Evidence(pod=of_pod)
        headroom = {
            node: float(fit.headroom_bits)
            for node, fit in evaluate(pod, nodes, inputs).items()
            if fit.headroom_bits is not None
        }
        left = largest_left(pod, nodes, inputs)
        measured = {"link_headroom_bits_per_second": headroom, "largest_left_on_one_device": left}
        return Evidence({quantity: values for quantity, values in measured.items() if values}, pod=of_pod)
