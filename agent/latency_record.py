"""Makes the latency record, which must fit into one value in etcd. Pure."""

from collections.abc import Collection

from msgspec import structs

from leadsman.state import codec
from leadsman.state.records import Latency, PeerLatency


def build_latency_record(peers: dict[str, PeerLatency], first: Collection[str] = ()) -> Latency:
    """The record of all peers. Where very long names make it too large, the farthest peers are left out.

    first: requested peers, which are left out last.
    """
    ordered = sorted(peers.items(), key=lambda item: (item[0] not in first, _distance(item[1])))
    record = Latency({name: _rounded(latency) for name, latency in ordered})
    while codec.size_bytes(record) > codec.LARGEST_VALUE_BYTES:
        record.peers.popitem()
    return record


def _rounded(latency: PeerLatency) -> PeerLatency:
    """Rounded to microseconds, which is finer than any value's error; ages to milliseconds."""
    rounded = {name: round(value, 3) for name, value in structs.asdict(latency).items() if isinstance(value, float)}
    return structs.replace(latency, **rounded)


def _distance(latency: PeerLatency) -> float:
    return float("inf") if latency.p50_ms is None else latency.p50_ms
