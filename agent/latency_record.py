"""What of a round of latencies goes into one value of the store. Pure."""

from collections.abc import Collection

import msgspec
from msgspec import structs

from leadsman.state.codec import LARGEST_VALUE_BYTES
from leadsman.state.records import Latency, PeerLatency


def build_latency_record(peers: dict[str, PeerLatency], first: Collection[str] = ()) -> Latency:
    """All peers as a rule. With very long names the farthest are left out: a near pair decides more often.

    first: those that somebody asked for; they go last.
    """
    ordered = sorted(peers.items(), key=lambda item: (item[0] not in first, _distance(item[1])))
    kept = {name: _rounded(latency) for name, latency in ordered}
    while len(msgspec.json.encode(Latency(kept))) > LARGEST_VALUE_BYTES:
        kept.popitem()
    return Latency(kept)


def _rounded(latency: PeerLatency) -> PeerLatency:
    """To microseconds, which is finer than any of it is known, and to milliseconds of age."""
    rounded = {name: round(value, 3) for name, value in structs.asdict(latency).items() if isinstance(value, float)}
    return structs.replace(latency, **rounded)


def _distance(latency: PeerLatency) -> float:
    return float("inf") if latency.p50_ms is None else latency.p50_ms
