"""What a row of the table is."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """defence: what is lost. file: below the root. text: in it exactly once. instead: what switches the defence off.
    test: the pytest node, below tests/, that must fail then."""

    defence: str
    file: str
    text: str
    instead: str
    test: str
