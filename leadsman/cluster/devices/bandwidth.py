"""Computes what is left of a link that pods share by SR-IOV: speed - what its virtual functions may send."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from leadsman.cluster.devices.demand import DeviceDemand


class LinkReading(Struct, frozen=True):
    """Says what a node's agent reads of the physical functions that have virtual functions.

    headroom_bits: per second, speed - Σ max_tx_rate of the physical function that has least left: the kubelet picks the
        function, so the worst one counts.
    limited_bits: Σ max_tx_rate of all virtual functions.
    limited: virtual functions with a max_tx_rate. 0 there means unlimited, and does not count.
    """

    headroom_bits: int
    limited_bits: int
    limited: int


def link_headroom_bits(reading: LinkReading, demands: Iterable[DeviceDemand], resources: Sequence[str]) -> int | None:
    """Returns what is certainly left for one more pod, in bit/s, beside these demands on the node; None: unknown.

    resources: the extended resources that are virtual functions.

    A function without a limit may send at line rate. If its pod says how much it asks, that counts; if a pod that says
    nothing may have such a function, nothing is known. Functions with a limit are taken to be those of pods.
    """
    asked, functions, silent = list[int](), 0, 0
    for demand in demands:
        count = sum(map(demand.amount, resources))
        if demand.bandwidth_bits is not None:
            asked.append(demand.bandwidth_bits)
            functions += count
        else:
            silent += count
    if silent and reading.limited < functions + silent:
        return None
    unlimited = sum(sorted(asked, reverse=True)[: max(0, len(asked) - reading.limited)])
    return min(reading.headroom_bits - unlimited, reading.headroom_bits + reading.limited_bits - sum(asked))
