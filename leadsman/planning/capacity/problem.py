"""The problem as integers: what is free on nodes, what failures need there, and the templates that are to fit."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

UNKNOWN = -1
"""The domain of a node whose rack or zone is unknown, or that has no label."""


class Spread(Struct, frozen=True, eq=False):
    """A topology spread constraint that counts the template's own pods.

    domain_of_node: node → domain; UNKNOWN: it has no label, so the template does not run there.
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
    backups_after: domain → `backups` after it failed, where another bound than to nodes makes it differ.
    scopes: how many of its node's domains it is to survive: 1: the node; 2: its rack too; 3: its zone too; 0: none.
    """

    name: str
    per_set: int
    amounts: Ints
    places: Mask
    backups: Mask
    scopes: int = 0
    backups_after: Mapping[int, Mask] = {}
    spread: tuple[Spread, ...] = ()

    def backups_for(self, domains: Sequence[int]) -> Mask:
        """The nodes that may take a pod after any of the failures."""
        allowed: Mask = np.all([self.backups_after.get(domain, self.backups) for domain in domains], axis=0)
        return allowed

    @property
    def ever(self) -> Mask:
        """The nodes that may have a pod at some time."""
        allowed: Mask = np.any([self.places, self.backups, *self.backups_after.values()], axis=0)
        return allowed


class QuotaLimit(Struct, frozen=True):
    """What a ResourceQuota leaves of one resource.

    per_pod: template → what one pod of it uses.
    made_again: domain → what the pods use that are made again when it fails: while the dead ones are deleted, both
        count.
    """

    name: str
    left: int
    per_pod: tuple[int, ...]
    made_again: Mapping[int, int] = {}


class Problem(Struct, frozen=True, eq=False):
    """All that a count looks at.

    nodes: their names; a node is its position here. N of them, K resources.
    resources: names; those that begin with "host port" or "anti-affinity" have one unit a node.
    free: (N, K): what the pods that run leave.
    domains: (N, 3): node → its own domain, its rack's and its zone's.
    needs: domain → node → what the pods that run need there when the domain fails.
    """

    nodes: tuple[str, ...]
    resources: tuple[str, ...]
    free: Ints
    domains: Ints
    needs: Mapping[int, Mapping[int, Ints]]
    templates: tuple[Template, ...]
    quotas: tuple[QuotaLimit, ...] = ()

    def only(self, template: int) -> "Problem":
        """The problem of one template alone, one pod a set."""
        alone = self.templates[template]
        quotas = tuple(QuotaLimit(q.name, q.left, (q.per_pod[template],), q.made_again) for q in self.quotas)
        single = Template(
            alone.name, 1, alone.amounts, alone.places, alone.backups, alone.scopes, alone.backups_after, alone.spread
        )
        return Problem(self.nodes, self.resources, self.free, self.domains, self.needs, (single,), quotas)


class Packing(Struct, frozen=True, eq=False):
    """Where sets of pods go.

    runs: (templates, N): pods on each node.
    backups: (template, node) → backup node → pods of the node that it takes.
    """

    runs: Ints
    backups: Mapping[tuple[int, int], Mapping[int, int]]


class Limit(NamedTuple):
    """No more sets than this fit, because of `cause`."""

    sets: int
    cause: str


def copies(free: Ints, amounts: Ints) -> Ints:
    """How many times the amounts fit in each row of what is free."""
    asked = np.flatnonzero(amounts)
    fitting: Ints = (free[:, asked] // amounts[asked]).min(axis=1).clip(min=0)
    return fitting


def reserved(problem: Problem) -> Ints:
    """(N, K): what the worst failure needs on each node."""
    most = np.zeros_like(problem.free)
    for by_node in problem.needs.values():
        for node, amounts in by_node.items():
            np.maximum(most[node], amounts, out=most[node])
    return most


def members(problem: Problem) -> Mapping[int, Ints]:
    """Domain → its nodes."""
    found: dict[int, list[int]] = {}
    for node, row in enumerate(problem.domains.tolist()):
        for domain in row:
            if domain != UNKNOWN:
                found.setdefault(domain, []).append(node)
    return {domain: np.array(nodes, np.int64) for domain, nodes in found.items()}
