"""What is reported of peers fits one value, and what is left out makes no node dead."""

from agent.reporting import build_latency_record, build_reachability_record
from leadsman.state.records import PeerLatency, PeerSilence, Reachability, encode_record


def window(p50_ms: float) -> PeerLatency:
    return PeerLatency(30, 30, p50_ms, p50_ms + 1.123, p50_ms, 0.123, 0.5)


def test_of_names_as_long_as_kubernetes_allows_the_nearest_are_kept() -> None:
    peers = {f"{n:02}-{'a' * 250}": window(n) for n in range(16)} | {"silent": PeerLatency(30, 0)}
    kept = build_latency_record(peers)
    encode_record(kept)
    assert list(kept.peers) == sorted(peers)[: len(kept.peers)]
    assert 8 < len(kept.peers) < 16


def test_those_that_somebody_asked_for_are_kept_however_far_they_are() -> None:
    peers = {f"{n:02}-{'a' * 250}": window(n) for n in range(16)}
    far = max(peers)
    assert far in build_latency_record(peers, {far}).peers


def reachability(answering: list[str], silent: list[str]) -> Reachability:
    losses = dict.fromkeys(answering, 0) | dict.fromkeys(silent, 7)
    silences = {name: PeerSilence(123.456, 124.567) for name in silent}
    return Reachability(losses, silences, len(losses), len(answering))


def test_of_names_as_long_as_kubernetes_allows_silent_peers_are_left_out_first_and_the_counts_stay() -> None:
    answering, silent = [f"{n:02}-{'a' * 250}" for n in range(12)], [f"{n}-{'b' * 250}" for n in range(10)]
    kept = build_reachability_record(reachability(answering, silent))
    encode_record(kept)
    assert set(answering) < set(kept.losses)
    assert kept.silences.keys() == kept.silent_peers
    assert (kept.probed, kept.answering) == (22, 12)
