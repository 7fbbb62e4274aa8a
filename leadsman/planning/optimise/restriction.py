"""Fewer options for pods that may go nearly anywhere: a pod has places times backups of them, 40,000 on 200 nodes."""

from collections import Counter
from collections.abc import Sequence
from math import isqrt

from msgspec.structs import replace

from leadsman.planning.optimise.problem import NOWHERE, Choice, PodOptions, Problem

MAX_OPTIONS = 40_000
"""Of all pods together: a variable each. The relaxation of twice as many took half a minute of CPU."""

LEAST_NODES = 8
"""Places and backups that each pod has left, however many pods there are."""


def restricted(problem: Problem, start: Sequence[Choice]) -> tuple[Problem, int]:
    """The problem with some places and backups of the pods that have too many, and how many pods those are.

    start: possible choices, which stay possible. The same problem is restricted in the same way.
    """
    most = max(LEAST_NODES, isqrt(MAX_OPTIONS // max(len(problem.pods), 1)))
    wanted_by = Counter(node for pod in problem.pods for node in pod.backups)
    roomy_first = sorted(range(len(problem.nodes)), key=lambda node: ([-free for free in problem.free[node]], node))
    shared_first = sorted(range(len(problem.nodes)), key=lambda node: (-wanted_by[node], node))
    pods, cut = [], 0
    for number, (pod, has) in enumerate(zip(problem.pods, start, strict=True)):
        if len(pod.places) * (len(pod.backups) if pod.scopes else 1) <= most**2:
            pods.append(pod)
            continue
        cut += 1
        pods.append(_cut(pod, has, most, _rotated(roomy_first, number), shared_first))
    return replace(problem, pods=tuple(pods)), cut


def _cut(pod: PodOptions, has: Choice, most: int, spread: Sequence[int], shared_first: Sequence[int]) -> PodOptions:
    """spread: nodes in an order of this pod, so that all pods together reach all nodes. Half of the backups are those
    that most pods may have, because a reserve is shared by pods that do not fall together."""
    places = _first(most, pod.places, [pod.home, has.place, *spread])
    shared = _first(most // 2, pod.backups, shared_first)
    backups = _first(max(most, most**2 // len(places)), pod.backups, [has.backup, *shared, *spread])
    return replace(pod, places=places, backups=backups)


def _first(most: int, allowed: Sequence[int], ordered: Sequence[int]) -> tuple[int, ...]:
    """The first of the ordered nodes that are allowed, in the order of `allowed`."""
    among = set(allowed) - {NOWHERE}
    chosen = {node: None for node in ordered if node in among}
    first = set(list(chosen)[:most])
    return tuple(node for node in allowed if node in first)


def _rotated(nodes: Sequence[int], by: int) -> Sequence[int]:
    at = by % max(len(nodes), 1)
    return [*nodes[at:], *nodes[:at]]
