"""What the ResourceClaims of one pod ask, from what is followed of them."""

from collections.abc import Sequence

from msgspec import Struct

from leadsman.cluster.devices.claims import RequestedWay
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo


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
