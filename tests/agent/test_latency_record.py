"""A round of latencies fits one value."""

from agent.reporting import build_latency_record
from leadsman.state.records import PeerLatency, encode_record


def window(p50_ms: float) -> PeerLatency:
    return PeerLatency(30, 30, p50_ms, p50_ms + 1.123, p50_ms, 0.123, 0.5)


def test_sixteen_peers_with_the_names_of_a_cloud_fit_whole() -> None:
    peers = {f"gke-production-europe-west4-pool-{n:02}-{'a' * 30}": window(n) for n in range(16)}
    assert build_latency_record(peers).peers == peers


def test_of_names_as_long_as_kubernetes_allows_the_nearest_are_kept() -> None:
    peers = {f"{n:02}-{'a' * 250}": window(n) for n in range(16)} | {"silent": PeerLatency(30, 0)}
    kept = build_latency_record(peers)
    encode_record(kept)
    assert list(kept.peers) == sorted(peers)[: len(kept.peers)]
    assert 8 < len(kept.peers) < 16


def test_floats_are_rounded_to_microseconds_and_keep_their_order() -> None:
    latency = PeerLatency(30, 30, 1.00049, 1.00051, 1.00049, 0.1 / 3, 0.4 / 3)
    assert build_latency_record({"a": latency}).peers["a"] == PeerLatency(30, 30, 1.0, 1.001, 1.0, 0.033, 0.133)


def test_those_that_somebody_asked_for_are_kept_however_far_they_are() -> None:
    peers = {f"{n:02}-{'a' * 250}": window(n) for n in range(16)}
    far = max(peers)
    assert far in build_latency_record(peers, {far}).peers
