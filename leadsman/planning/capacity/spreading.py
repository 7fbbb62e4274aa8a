"""How many pods a topology spread lets into its domains, and how it wants a number of them divided."""

import numpy as np

from leadsman.planning.capacity.problem import Ints, Spread


def domain_caps(spread: Spread, room: Ints) -> Ints:
    """Domain → most pods that can be added, bound one after another in the best order.

    room: node → pods for which it has room. The last pod of a domain needs max_skew more than the least populated one
    at most, and every domain can be filled up to that one first: so the least populated at the end decides.
    """
    by_domain = _by_domain(spread, room)
    full = spread.present + by_domain
    least = int(full[spread.counted].min()) if spread.enough_domains and spread.counted.any() else 0
    caps: Ints = np.minimum(by_domain, (least + spread.max_skew - spread.present).clip(min=0))
    return caps


def divided(spread: Spread, room: Ints, pods: int) -> Ints:
    """Domain → how many of the pods go there, the least populated first. `pods` fit: domain_caps has as many."""
    caps = domain_caps(spread, room)
    low, high = 0, int((spread.present + caps).max(initial=0))
    while low < high:
        level = (low + high) // 2
        if _filled(spread, caps, level).sum() >= pods:
            high = level
        else:
            low = level + 1
    added = _filled(spread, caps, low)
    for domain in np.flatnonzero(added + spread.present == low)[::-1].tolist():
        if added.sum() > pods and added[domain]:
            added[domain] -= 1
    return added


def _filled(spread: Spread, caps: Ints, level: int) -> Ints:
    filled: Ints = np.minimum(caps, (level - spread.present).clip(min=0))
    return filled


def _by_domain(spread: Spread, room: Ints) -> Ints:
    there = spread.domain_of_node >= 0
    sums = np.bincount(spread.domain_of_node[there], room[there], minlength=len(spread.present))
    return sums.astype(np.int64)
