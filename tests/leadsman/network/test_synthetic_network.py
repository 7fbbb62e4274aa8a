import numpy as np
import pytest

from leadsman.network.synthetic_network import SyntheticNetwork, rack_network, random_peers


def test_round_trips_say_whether_nodes_share_a_rack_a_zone_or_neither(region: SyntheticNetwork) -> None:
    same_rack = region.rack[:, None] == region.rack
    same_zone = region.zone[:, None] == region.zone
    within, between, across = (
        np.median(region.rtt_ms[which]) for which in (same_rack, same_zone & ~same_rack, ~same_zone)
    )
    assert 0.06 <= within <= 0.12 < 0.15 <= between <= 0.4 < 0.6 <= across <= 1.4


def test_a_network_is_symmetric_with_nothing_on_the_diagonal(region: SyntheticNetwork) -> None:
    assert np.array_equal(region.rtt_ms, region.rtt_ms.T)
    assert not region.rtt_ms.diagonal().any()


def test_the_same_seed_gives_the_same_network() -> None:
    one, other = (rack_network(2, 2, 3, np.random.default_rng(4)).rtt_ms for _ in range(2))
    assert np.array_equal(one, other)


def test_every_node_measures_k_different_others() -> None:
    source, target = random_peers(20, 5, np.random.default_rng(0))
    assert (source != target).all()
    assert len(set(zip(source.tolist(), target.tolist(), strict=True))) == 100


@pytest.mark.parametrize("k", [0, 20, -1])
def test_an_impossible_k_is_named(k: int) -> None:
    with pytest.raises(ValueError, match=f"k {k} must be within 1..19 for 20 nodes"):
        random_peers(20, k, np.random.default_rng(0))
