"""Decisions of all replicas together."""

from math import inf
from typing import cast

import pytest

from extender.api.contract.common import ReasonCount
from extender.api.contract.decisions import SilentReplica
from extender.api.contract.overview import LatencyBucket, ReplicaRates
from extender.api.decision_rates import Window, rates_of
from extender.api.rates_page import MAX_REASONS, decision_rates
from extender.api.replica_statuses import ReplicaStatuses
from extender.peers.client import PeerAnswers, PeerClient, SilentPeer
from tests.extender.api.conftest import Api
from tests.extender.api.test_replica_answers import answer

FAST = ReplicaRates("d1", 60.0, [LatencyBucket(0.01, 99.0), LatencyBucket(None, 99.0)], [ReasonCount("far", 2)], 1, [])
SLOW = ReplicaRates("d2", 30.0, [LatencyBucket(0.01, 0.0), LatencyBucket(None, 1.0)], [ReasonCount("far", 3)], 2, [])


def test_decisions_refusals_and_neutral_answers_are_summed() -> None:
    summed = decision_rates(FAST, {"extender-1": SLOW}, [])
    assert (summed.per_minute, summed.neutral, summed.replicas) == (99 + 2, 3, 2)
    assert list(summed.refused_by_reason) == [ReasonCount("far", 5)]


def test_refused_nodes_are_counted_for_the_reasons_that_are_not_listed_too() -> None:
    reasons = [ReasonCount(f"delay to edge-{at} over 5 ms", 1) for at in range(MAX_REASONS + 4)]
    summed = decision_rates(ReplicaRates("d1", 60.0, [], reasons, 0, []), {}, [])
    assert (summed.refused, len(summed.refused_by_reason)) == (MAX_REASONS + 4, MAX_REASONS)


def test_p99_is_of_the_merged_histogram() -> None:
    one, other = {0.1: 90.0, 0.2: 90.0, inf: 90.0}, {0.1: 0.0, 0.2: 10.0, inf: 10.0}
    rates = rates_of([Window(60.0, one), Window(60.0, other)])
    assert rates.p99_ms == pytest.approx(190.0), "the mean of 99 and 199 would be 149"


def test_a_replica_that_decided_nothing_changes_no_time() -> None:
    only = {0.1: 90.0, inf: 90.0}
    assert rates_of([Window(60.0, only), Window(60.0, {}), Window()]) == rates_of([Window(60.0, only)])


def test_ends_that_one_version_alone_has_are_left_out() -> None:
    rates = rates_of([Window(60.0, {0.1: 1.0, 0.2: 2.0, inf: 2.0}), Window(60.0, {0.2: 2.0, inf: 2.0})])
    assert (rates.per_minute, rates.p50_ms) == (4.0, pytest.approx(100.0))


class Peers:
    """Answers each path as its table says."""

    def __init__(self, **answers: PeerAnswers) -> None:
        self._answers = answers

    async def ask(self, path: str, query: object) -> PeerAnswers:
        return self._answers[path.rpartition("/")[2]]


EMPTY_LIST = {"items": [], "next": None, "total": 0}


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        (PeerAnswers([answer("extender-1", SLOW)]), []),
        (PeerAnswers([answer("extender-1", {}, status=404)]), ["extender-1: it runs an older version"]),
        (
            PeerAnswers((), [SilentPeer("extender-1", "no answer within 450 ms")]),
            ["extender-1: no answer within 450 ms"],
        ),
    ],
)
async def test_a_replica_whose_rates_are_missing_is_named(said: PeerAnswers, missing: list[str]) -> None:
    peers = Peers(rates=said, policies=PeerAnswers([answer("extender-1", EMPTY_LIST)]))
    statuses = ReplicaStatuses(cast(PeerClient, peers))
    await statuses.refresh()
    assert [f"{each.replica}: {each.error}" for each in statuses.without_rates] == missing
    assert set(statuses.rates) == (set() if missing else {"extender-1"})


async def test_the_overview_says_of_how_many_replicas_it_is_the_sum(api: Api) -> None:
    api.live.replicas.rates = {"extender-1": SLOW}
    api.live.replicas.without_rates = [SilentReplica("extender-2", "no answer within 450 ms")]
    _, shown = await api.get("/overview")
    decisions = shown["decisions"]
    assert (decisions["replicas"], decisions["per_minute"], decisions["neutral"]) == (2, 2.0, 2)
    assert decisions["partial"] == [{"replica": "extender-2", "error": "no answer within 450 ms"}]
