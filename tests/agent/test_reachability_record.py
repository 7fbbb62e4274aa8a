"""Who answers fits one value, and what is left out makes no node dead."""

from agent.reporting import build_reachability_record
from leadsman.state.records import PeerSilence, Reachability, encode_record


def reachability(answering: list[str], silent: list[str]) -> Reachability:
    losses = dict.fromkeys(answering, 0) | dict.fromkeys(silent, 7)
    silences = {name: PeerSilence(123.456, 124.567) for name in silent}
    return Reachability(losses, silences, len(losses), len(answering))


def test_sixteen_silent_peers_with_the_names_of_a_cloud_fit_whole() -> None:
    found = reachability([], [f"gke-production-europe-west4-pool-{n:02}-{'a' * 15}" for n in range(16)])
    assert build_reachability_record(found) == found


def test_of_names_as_long_as_kubernetes_allows_silent_peers_are_left_out_first_and_the_counts_stay() -> None:
    answering, silent = [f"{n:02}-{'a' * 250}" for n in range(12)], [f"{n}-{'b' * 250}" for n in range(10)]
    kept = build_reachability_record(reachability(answering, silent))
    encode_record(kept)
    assert set(answering) < set(kept.losses)
    assert kept.silences.keys() == kept.silent_peers
    assert (kept.probed, kept.answering) == (22, 12)
