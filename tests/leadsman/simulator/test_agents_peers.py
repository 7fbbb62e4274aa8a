"""The peers that agents choose over a known network: ring, random and near ones, never those that do not reply."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from leadsman.network.measured_pairs import Floats
from leadsman.simulator.agents_peers import ProbedPairs, agents_peers

NODES, K = 30, 8


@pytest.fixture(scope="module")
def rtt_ms() -> Floats:
    """A line, 1 ms a step. Nodes 0 and 1 do not reach each other."""
    found = np.abs(np.subtract.outer(np.arange(NODES), np.arange(NODES))).astype(float)
    found[0, 1] = found[1, 0] = 0.0
    return found


@pytest.fixture(scope="module")
def moments(rtt_ms: Floats) -> Sequence[ProbedPairs]:
    return asyncio.run(agents_peers(rtt_ms, K, 0, moments=2))


def test_everybody_measures_k_others_or_one_fewer(moments: Sequence[ProbedPairs]) -> None:
    for probed in moments:
        assert (probed.source != probed.target).all()
        assert np.bincount(probed.source, minlength=NODES).min() >= K - 1


def test_what_gives_no_reply_is_not_measured(moments: Sequence[ProbedPairs]) -> None:
    assert not any(((probed.source <= 1) & (probed.target <= 1)).any() for probed in moments)


def test_agents_measure_nodes_nearer_than_chance(moments: Sequence[ProbedPairs], rtt_ms: Floats) -> None:
    probed = moments[0]
    assert np.mean(rtt_ms[probed.source, probed.target] <= 3) > 1.3 * np.mean(rtt_ms <= 3)


def test_some_peers_change_from_moment_to_moment_and_most_stay(moments: Sequence[ProbedPairs], rtt_ms: Floats) -> None:
    now, before = (probed.measured(rtt_ms) for probed in moments)
    stayed = before.find_pairs(now.first, now.second)[1].mean()
    assert 0.5 < stayed < 1.0
