"""Round trips of a synthetic cluster of any size, without a matrix: zones in a plane, racks in zones, links of hosts.

Within a rack 0.05 to 0.15 ms, within a zone 0.2 to 0.6, between zones 1 to 25 ms: a cluster over one continent.
"""

from hashlib import blake2b
from math import hypot
from random import Random

ZONES, RACK_NODES = 12, 20
ZONE_PLANE_MS = 20.0


class SyntheticNetwork:
    """The network. Every name has a zone, a rack and a link, whether or not a node of that name exists.

    seed: of the zones' positions.
    """

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self._zones = [(rng.uniform(0, ZONE_PLANE_MS), rng.uniform(0, ZONE_PLANE_MS)) for _ in range(ZONES)]
        self._racks: dict[str, tuple[int, int, float]] = {}

    def rtt_ms(self, one: str, other: str) -> float:
        """Round trip between two nodes, the same in both directions."""
        (zone, rack, link), (other_zone, other_rack, other_link) = self._rack(one), self._rack(other)
        if zone != other_zone:
            (x, y), (other_x, other_y) = self._zones[zone], self._zones[other_zone]
            return 0.5 + hypot(x - other_x, y - other_y) + link + other_link
        return (0.0 if rack == other_rack else 0.15) + link + other_link

    def zone(self, name: str) -> str:
        return f"zone-{self._rack(name)[0]}"

    def _rack(self, name: str) -> tuple[int, int, float]:
        """Zone, rack in it, and the host's link: its share of a round trip in ms."""
        if name not in self._racks:
            number = int.from_bytes(blake2b(name.encode(), digest_size=6, person=b"places").digest(), "big")
            rack = number % 1_000_003
            self._racks[name] = (rack % ZONES, rack // ZONES % 40, 0.025 + (number >> 24) / (1 << 24) * 0.05)
        return self._racks[name]
