"""Defines how many pods of given templates fit, as integers: the room of a cluster, and the templates that are to
fit."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.planning.backups.reserve import Ints, ReserveLedger, Room

Mask = NDArray[np.bool_]


class Spread(Struct, frozen=True, eq=False):
    """A topology spread constraint that counts the template's own pods.

    domain_of_node: node → domain; negative: it has no label, so the template does not run there.
    present: domain → pods that count there now. counted: whether the domain is looked at for the least.
    enough_domains: False: fewer domains than minDomains, so the least is 0.
    """

    label: str
    domain_of_node: Ints
    present: Ints
    counted: Mask
    max_skew: int
    enough_domains: bool


class Template(Struct, frozen=True, eq=False):
    """Pods that are alike.

    per_set: how many of them a set has.
    amounts: what one takes of each resource.
    places: nodes that may run it, whatever their room. backups: nodes that may take it after a failure.
    scopes: how many of its node's domains it is to survive: 1: the node; 2: its rack too; 3: its zone too; 0: none.
    """

    name: str
    per_set: int
    amounts: Ints
    places: Mask
    backups: Mask
    scopes: int = 0
    spread: tuple[Spread, ...] = ()

    @property
    def ever(self) -> Mask:
        """Marks the nodes that may have a pod at some time."""
        allowed: Mask = self.places | self.backups
        return allowed


class Problem(Struct, frozen=True, eq=False):
    """All that a count looks at."""

    room: Room
    templates: tuple[Template, ...]

    def ledger(self) -> ReserveLedger:
        """Returns what there is before any new pod."""
        return ReserveLedger(self.room.free, self.room.needs)


class Packing(Struct, frozen=True, eq=False):
    """Says where sets of pods go.

    runs: (templates, N): pods on each node.
    backups: (template, node) → backup node → pods of the node that it takes.
    """

    runs: Ints
    backups: Mapping[tuple[int, int], Mapping[int, int]]


class Limit(NamedTuple):
    """No more sets than this fit, because of `cause`."""

    sets: int
    cause: str


def domain_caps(spread: Spread, room: Ints) -> Ints:
    """Maps each domain to the most pods that can be added, bound one after another in the best order.

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
