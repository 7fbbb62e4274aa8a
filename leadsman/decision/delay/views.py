"""What delays are taken from besides the agents' own reports; implemented in `delays`.

Objects of these shapes are immutable views of one moment: a new one when anything changes, so that what was computed
from the old one can be kept by its identity. Round trips are in ms, finite and at least 0; times are monotonic seconds.
"""

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct


class SourceRow(Struct, frozen=True):
    """What one source knows between a reference node and others.

    forward: node → round trip, measured by the reference; backward: by the node. no_reply: nodes that one of the two
    probed without a reply: never a delay, and never estimated. A node without data stands nowhere.
    """

    forward: Mapping[str, float] = MappingProxyType({})
    backward: Mapping[str, float] = MappingProxyType({})
    no_reply: Set[str] = frozenset()


class DelayView(Protocol):
    """Measured elsewhere: a static matrix, Goldpinger.

    source: the name in explanations. nodes: those that the source knows; while it is fresh, it vouches for them as an
    agent's heartbeat does, so an estimate may count for them. read_at: when it was measured; None: it does
    not age. fresh_until: from then on nothing of it counts; infinite for what does not age.
    """

    @property
    def source(self) -> str: ...
    @property
    def nodes(self) -> Set[str]: ...
    @property
    def read_at(self) -> float | None: ...
    @property
    def fresh_until(self) -> float: ...

    def row(self, reference: str) -> SourceRow:
        """Row() for a reference that the source does not know."""
        ...


class EstimatedRow(Struct, frozen=True):
    """From a reference to `nodes`, each once; the columns are as long. A node without an estimate is left out.

    low_ms..high_ms hold the truth in 9 of 10 pairs. source: "group", "coordinates", "remembered" for a pair that was
    measured before, or "measured" for one that was when the estimates were made. expected_ms: by what other nodes
    report of both ends; what only one of the two reports counts as no less. lowest_ms: below it that is not believed at
    all. Of both 0: nothing can be told; infinite: nothing that only one reports is believed, and then the estimate may
    be NaN. Empty: all are 0.
    """

    nodes: Sequence[str] = ()
    rtt_ms: Sequence[float] = ()
    low_ms: Sequence[float] = ()
    high_ms: Sequence[float] = ()
    source: Sequence[str] = ()
    expected_ms: Sequence[float] = ()
    lowest_ms: Sequence[float] = ()


class EstimateView(Protocol):
    """Fitted in the background. made_at: when what they were fitted to was read."""

    @property
    def made_at(self) -> float: ...

    def row(self, reference: str) -> EstimatedRow:
        """EstimatedRow() for a reference of which nothing is known. Asked once for each new object, and kept."""
        ...


class LastRoundTrips(Struct, frozen=True):
    """Of a node that is dead or suspect, between it and others, as measured before it fell silent.

    measured_at: when. rtt_ms: other node → round trip.
    """

    measured_at: float
    rtt_ms: Mapping[str, float]


NO_LAST_ROUND_TRIPS: Mapping[str, LastRoundTrips] = MappingProxyType({})
