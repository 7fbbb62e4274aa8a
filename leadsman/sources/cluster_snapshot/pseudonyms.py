"""Names → pseudonyms that keep equality and order, and tell nothing else.

Equal names have equal pseudonyms wherever they stand, so that a label still matches its selector and a bound its node.
Pseudonyms sort as the names do, because planners break ties by name: the anonymous file then gives the same plan.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random

_BITS = 48

Rename = Callable[[str], str]
"""A name → its pseudonym."""


def pseudonyms(names: Iterable[str], rng: Random) -> Mapping[str, str]:
    """Name → pseudonym: `x` and 12 hexadecimal digits, which can be a node's name and a label's key and value.

    rng: where the numbers come from; with a secret one, such as random.SystemRandom, nobody can guess a name and check
    it, as one could a hash's.
    """
    ordered = sorted(set(names))
    numbers = sorted(rng.sample(range(1 << _BITS), len(ordered)))
    return {name: f"x{number:012x}" for name, number in zip(ordered, numbers, strict=True)}
