"""How many sets fit: a number that a packing reaches, and one that is proven not to be exceeded."""

from collections.abc import Callable

from msgspec import Struct

from leadsman.planning.capacity.bounds import limits
from leadsman.planning.capacity.exhaustive import MOST_NODES, Exhaustive, OutOfWork
from leadsman.planning.capacity.packing import pack
from leadsman.planning.capacity.problem import Packing, Problem

WORK = 200_000
"""Steps of the exhaustive search: two or three seconds."""


Judge = Callable[[Packing], bool]

NO_DIVISION = "no division over nodes and backups has room for one more"


class Count(Struct, frozen=True):
    """How many sets fit.

    sets: so many fit, as `packing` shows. at_most: more are proven not to fit; equal to `sets`: the count is exact.
    cause: what limits them.
    """

    sets: int
    at_most: int
    cause: str
    packing: Packing

    @property
    def exact(self) -> bool:
        return self.sets == self.at_most


def count_sets(problem: Problem, work: int = WORK, accepts: Judge | None = None) -> Count:
    """The count of a problem.

    work: steps that may be taken to close a gap on a small one.
    accepts: judges a packing by what the problem's numbers leave out; what it refuses does not count. Then trying
        everything proves nothing, because of several divisions of backups only one is judged.
    """
    at_most, cause = limits(problem)[0]
    sets, packing = _packed(problem, at_most, accepts or _any)
    if sets < at_most and _is_small(problem):
        search = Exhaustive(problem, work, accepts or _any)
        try:
            while sets < at_most:
                better = search.pack(sets + 1)
                if better is None:
                    at_most, cause = (sets, NO_DIVISION) if accepts is None else (at_most, cause)
                    break
                sets, packing = sets + 1, better
        except OutOfWork:
            pass
    return Count(sets, at_most, cause, packing)


def fits(problem: Problem, sets: int, work: int = WORK) -> bool:
    """Whether so many sets are shown to fit; of a small problem also by trying everything."""
    if limits(problem)[0].sets < sets:
        return False
    if pack(problem, sets) is not None:
        return True
    if not _is_small(problem):
        return False
    try:
        return Exhaustive(problem, work, _any).pack(sets) is not None
    except OutOfWork:
        return False


def _any(_: Packing) -> bool:
    return True


def _is_small(problem: Problem) -> bool:
    return len(problem.nodes) <= MOST_NODES and not any(each.spread for each in problem.templates)


def _packed(problem: Problem, at_most: int, accepts: Judge) -> tuple[int, Packing]:
    """The most sets that `pack` puts, by bisection after it tried all of them."""
    best, packing = 0, pack(problem, 0)
    assert packing is not None, "nothing always fits"
    low, high, sets = 1, at_most, at_most
    while low <= high:
        found = pack(problem, sets)
        if found is None or not accepts(found):
            high = sets - 1
        else:
            best, packing, low = sets, found, sets + 1
        sets = (low + high + 1) // 2
    return best, packing
