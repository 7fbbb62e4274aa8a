"""Groups nodes that are near each other, in layers of several delays.

In a layer of L milliseconds every two nodes of a group are at most L apart. Groups are merged while any two fit
together (complete linkage [1]); a node that fits nowhere is a group of one. No triangle inequality is assumed: round
trips violate it. Delays are square matrices, symmetric, 0 on the diagonal; NaN is an unknown delay and never near.

[1] Defays, "An efficient algorithm for a complete link method", The Computer Journal 20, 1977.
"""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices


class Layer(NamedTuple):
    """The groups of nodes at one limit. group_of: group of each node, 0, 1, … without a gap."""

    limit_ms: float
    group_of: Indices

    @property
    def groups(self) -> list[Indices]:
        """Returns the nodes of each group, in ascending order."""
        order = np.argsort(self.group_of, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.group_of))[:-1]) if len(order) else []


def build_layer(delay_ms: Floats, limit_ms: float, before: Indices | None = None) -> Layer:
    """Builds one layer. Previous groups that still hold stay together.

    before: the previous group of each node, -1: it joined. None: all did.
    """
    joined = np.full(len(delay_ms), -1) if before is None else before
    of = _with_singletons(_without_violators(delay_ms, limit_ms, joined))
    return Layer(limit_ms, _merged(group_distances_ms(delay_ms, of), of, limit_ms))


def group_distances_ms(delay_ms: Floats, of: Indices) -> Floats:
    """Returns the largest delay between each two groups. Unknown ones are infinite."""
    order = np.argsort(of, kind="stable")
    begin = np.searchsorted(of[order], np.arange(of.max(initial=-1) + 1))
    distances = np.empty((len(begin), len(begin)), delay_ms.dtype)
    for group, members in enumerate(np.split(order, begin[1:]) if len(begin) else ()):
        known = np.nan_to_num(delay_ms[members], nan=np.inf)
        distances[group] = np.maximum.reduceat(known.max(0)[order], begin)
    return distances


def _without_violators(delay_ms: Floats, limit_ms: float, of: Indices) -> Indices:
    """Takes nodes out of their group that are too far from others of it; those too far from most go first."""
    of = of.copy()
    apart = ~(delay_ms <= limit_ms) & (of[:, None] == of) & (of >= 0)
    np.fill_diagonal(apart, False)
    often = apart.sum(1)
    while often.any():
        worst = int(often.argmax())
        often -= apart[worst]
        apart[worst] = apart[:, worst] = False
        often[worst], of[worst] = 0, -1
    return of


def _with_singletons(of: Indices) -> Indices:
    """Numbers groups without a gap, and gives each node that has none one of its own."""
    none = of < 0
    of = of.copy()
    of[none] = of.max(initial=-1) + 1 + np.arange(none.sum())
    return np.asarray(np.unique(of, return_inverse=True)[1])


def _merged(far: Floats, of: Indices, limit_ms: float) -> Indices:
    """Merges into each group in turn the nearest that fits, until none does. Merging only makes groups farther apart,
    so one turn each is enough."""
    np.fill_diagonal(far, np.inf)
    into = np.arange(len(far))
    for group in range(len(far)):
        while far[group].min(initial=np.inf) <= limit_ms:
            taken = int(far[group].argmin())
            far[group] = far[:, group] = np.maximum(far[group], far[taken])
            far[taken] = far[:, taken] = np.inf
            into[into == taken] = group
    return np.asarray(np.unique(into[of], return_inverse=True)[1])
