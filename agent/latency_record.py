"""Makes the records that an agent reports of its peers: latencies, which must fit into one value of etcd, and silences.

Pure."""

from collections.abc import Collection

from msgspec import structs

from leadsman.state.records import LARGEST_VALUE_BYTES, Latency, PeerLatency, Reachability, record_size_bytes

# Makes the reachability record, which must fit into one value in etcd.


def build_reachability_record(found: Reachability) -> Reachability:
    """The record. Where very long names make it too large, silent peers are left out first.

    A silence that is not reported makes no node dead; an answer that is not reported could. The counts stay.
    """
    record = structs.replace(found, losses=dict(found.losses), silences=dict(found.silences))
    kept = sorted(record.losses, key=lambda name: name in record.silences)
    while record_size_bytes(record) > LARGEST_VALUE_BYTES:
        left_out = kept.pop()
        del record.losses[left_out]
        record.silences.pop(left_out, None)
    return record


def build_latency_record(peers: dict[str, PeerLatency], first: Collection[str] = ()) -> Latency:
    """The record of all peers. Where very long names make it too large, the farthest peers are left out.

    first: requested peers, which are left out last.
    """
    ordered = sorted(peers.items(), key=lambda item: (item[0] not in first, _distance(item[1])))
    record = Latency({name: _rounded(latency) for name, latency in ordered})
    while record_size_bytes(record) > LARGEST_VALUE_BYTES:
        record.peers.popitem()
    return record


def _rounded(latency: PeerLatency) -> PeerLatency:
    """Rounded to microseconds, which is finer than any value's error; ages to milliseconds."""
    rounded = {name: round(value, 3) for name, value in structs.asdict(latency).items() if isinstance(value, float)}
    return structs.replace(latency, **rounded)


def _distance(latency: PeerLatency) -> float:
    return float("inf") if latency.p50_ms is None else latency.p50_ms
