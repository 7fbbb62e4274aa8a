"""What to add so that a number of sets fits: copies of nodes that are there, at their position in the network.

A copy has its node's labels, taints and size, the rack and zone, the DaemonSet pods, and its delays. Copies of one node
at a time are looked at, not mixtures.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from leadsman.planning.capacity.bounds import limits
from leadsman.planning.capacity.count import fits
from leadsman.planning.capacity.model import HOSTNAME_LABEL, CapacityModel, Columns
from leadsman.planning.capacity.problem import Mask, Problem, Spread, Template

MOST_COPIES = 1000


class Addition(Struct, frozen=True):
    """So many sets fit with `copies` of `node`. like: other nodes of which as many copies do. cost: of all; None: the
    cost of the node is unknown."""

    copies: int
    node: str
    cost: float | None
    like: tuple[str, ...] = ()


def additions(model: CapacityModel, sets: int, costs: Mapping[str, float]) -> list[Addition]:
    """The cheapest first, those of unknown cost last; [] when copies of no single node are enough.

    costs: node → what one like it costs.
    """
    found = []
    for alike in _alike(model, costs):
        if copies := _fewest(model, alike[0], sets):
            cost = costs.get(alike[0])
            found.append(Addition(copies, alike[0], None if cost is None else cost * copies, tuple(alike[1:])))
    return sorted(found, key=lambda each: (each.cost is None, each.cost, each.copies, each.node))


def extended(model: CapacityModel, node: str, count: int) -> Problem:
    """The problem with `count` copies of the node."""
    problem = model.problem
    at = problem.nodes.index(node)
    fresh = np.array([_fresh(model, node)] * count, np.int64).reshape(count, -1)
    domains = np.repeat(problem.domains[at][None], count, axis=0)
    domains[:, 0] = problem.domains.max(initial=0) + 1 + np.arange(count)
    return replace(
        problem,
        nodes=(*problem.nodes, *(f"{node}+{number}" for number in range(1, count + 1))),
        free=np.concatenate([problem.free, fresh]),
        domains=np.concatenate([problem.domains, domains]),
        templates=tuple(_extended(each, at, count) for each in problem.templates),
    )


def _alike(model: CapacityModel, costs: Mapping[str, float]) -> list[list[str]]:
    """The nodes that may run a template, those together that no template can tell apart."""
    groups: dict[object, list[str]] = {}
    scopes = max(each.scopes for each in model.problem.templates)
    for at, node in enumerate(model.problem.nodes):
        masks = [(each.places[at], each.backups[at]) for each in model.problem.templates]
        if any(place or backup for place, backup in masks) and not model.situation.cluster.nodes[node].unschedulable:
            spreads = tuple(
                int(spread.domain_of_node[at])
                for each in model.problem.templates
                for spread in each.spread
                if spread.label != HOSTNAME_LABEL
            )
            wider = tuple(model.problem.domains[at, 1:scopes].tolist()) if scopes else ()
            after = tuple(bool(mask[at]) for each in model.problem.templates for mask in each.backups_after.values())
            key = (tuple(_fresh(model, node)), tuple(map(tuple, masks)), wider, spreads, after, costs.get(node))
            groups.setdefault(key, []).append(node)
    return list(groups.values())


def _fewest(model: CapacityModel, node: str, sets: int) -> int:
    """The fewest copies that are enough; 0: MOST_COPIES are not."""

    def suffices(copies: int) -> bool:
        return fits(extended(model, node, copies), sets)

    if limits(extended(model, node, MOST_COPIES))[0].sets < sets:
        return 0
    high = 1
    while not suffices(high):
        high *= 2
        if high > MOST_COPIES:
            return 0
    low = high // 2 + 1
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _fresh(model: CapacityModel, node: str) -> list[int]:
    """What a copy of the node has free beside the pods that every node like it gets."""
    staying = [pod for pod in model.situation.cluster.pods_on(node) if pod.mirror or pod.owner_kind == "DaemonSet"]
    others = {pod.uid: None for pod in model.situation.cluster.pods_on(node) if pod not in staying}
    columns = Columns([each.pod for each in model.templates])
    return columns.free(model.situation.cluster.changed(pods=others), node)


def _extended(template: Template, at: int, count: int) -> Template:
    return replace(
        template,
        places=_repeated(template.places, at, count),
        backups=_repeated(template.backups, at, count),
        backups_after={domain: _repeated(mask, at, count) for domain, mask in template.backups_after.items()},
        spread=tuple(_extended_spread(each, at, count) for each in template.spread),
    )


def _repeated(mask: Mask, at: int, count: int) -> Mask:
    return np.concatenate([mask, np.full(count, mask[at])])


def _extended_spread(spread: Spread, at: int, count: int) -> Spread:
    """Over host names every copy is a domain of its own."""
    if spread.label != HOSTNAME_LABEL:
        here = np.full(count, spread.domain_of_node[at])
        return replace(spread, domain_of_node=np.concatenate([spread.domain_of_node, here]))
    own = len(spread.present) + np.arange(count)
    return replace(
        spread,
        domain_of_node=np.concatenate([spread.domain_of_node, own]),
        present=np.concatenate([spread.present, np.zeros(count, np.int64)]),
        counted=np.concatenate([spread.counted, np.ones(count, np.bool_)]),
    )
