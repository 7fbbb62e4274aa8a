"""What other replicas say, put beside what this one keeps."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from extender.api.cluster_pages import policy_rows
from extender.api.contract.cluster import PolicyRow
from extender.api.contract.common import ListPage
from extender.api.contract.decisions import DecisionList, DecisionRow, SilentReplica
from extender.api.decision_pages import newest_first
from extender.api.replica_answers import ask_replicas, names_of
from extender.peers.client import PeerAnswer, PeerAnswers, PeerClient, SilentPeer
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy, digest, parse
from leadsman.state.snapshot import Snapshot

INPUTS = DecisionInputs(Snapshot(), Policy(), now=1.0)
POLICY = PolicyRow("policy", "policy", digest(Policy()), "", True, [], "", [])


class Peers:
    """Answers as other replicas would."""

    def __init__(self, *answers: PeerAnswer, silent: Sequence[SilentPeer] = ()) -> None:
        self._answers, self.paths = PeerAnswers(answers, silent), list[str]()

    async def ask(self, path: str, query: Mapping[str, str]) -> PeerAnswers:
        self.paths.append(path)
        return self._answers


def answer(name: str, value: Any, status: int = 200) -> PeerAnswer:
    return PeerAnswer(name, status, {}, msgspec.json.encode(value))


async def asked(peers: Peers) -> tuple[list[tuple[str, ListPage[PolicyRow]]], list[SilentReplica]]:
    return await ask_replicas(cast(PeerClient, peers), "/policies", {}, ListPage[PolicyRow])


async def test_each_replica_s_answer_stands_under_its_name() -> None:
    peers = Peers(answer("extender-1", ListPage([POLICY], None, 1)))
    answers, silent = await asked(peers)
    assert (answers, silent) == ([("extender-1", ListPage([POLICY], None, 1))], [])
    assert peers.paths == ["/api/v1/policies"]


async def test_a_replica_that_keeps_none_is_not_silent() -> None:
    assert await asked(Peers(answer("extender-1", {"error": "no such decision"}, status=404))) == ([], [])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer("extender-1", {}, status=500), "its answer has the status 500"),
        (answer("extender-1", {"items": 7}), "its answer cannot be read, so it may run another version"),
    ],
)
async def test_an_answer_of_no_use_counts_as_silence_with_its_reason(said: PeerAnswer, why: str) -> None:
    answers, (silent,) = await asked(Peers(said))
    assert answers == []
    assert (silent.replica, silent.error.startswith(why)) == ("extender-1", True)


async def test_silent_replicas_are_named() -> None:
    _, silent = await asked(Peers(silent=[SilentPeer("extender-1", "no answer within 450 ms")]))
    assert names_of(silent) == "extender-1: no answer within 450 ms"


async def test_without_other_replicas_nobody_is_asked_and_nobody_is_silent() -> None:
    assert await ask_replicas(None, "/decisions", {}, DecisionList) == ([], [])


@pytest.mark.parametrize(
    ("of_replicas", "differs"),
    [
        ({}, ""),
        ({"extender-1": [POLICY]}, ""),
        ({"extender-1": [POLICY], "extender-2": []}, "extender-2"),
        ({"extender-2": [], "extender-1": [msgspec.structs.replace(POLICY, hash="other")]}, "extender-1"),
    ],
)
def test_a_policy_names_the_first_replica_that_has_another_one(
    of_replicas: Mapping[str, Sequence[PolicyRow]], differs: str
) -> None:
    (row,) = policy_rows(INPUTS, "", "", of_replicas)
    assert row.differs_from_replica == differs


def test_a_policy_shows_its_rules_by_place_and_hash() -> None:
    rules = """rules:
      filters: [{name: cool, expression: 'node.hardware["temperature_celsius"] < 80.0', reason: hot}]
      scores: [{name: fresh, expression: node.fresh}, {name: in-zone, expression: 'node.zone == "a"'}]"""
    policy = parse(rules)
    (row,) = policy_rows(DecisionInputs(Snapshot(), policy, now=1.0), "", "", {})
    assert [(each.kind, each.name, each.position, each.hash) for each in row.rules] == [
        ("filter", "cool", "$.rules.filters[0]", digest(policy.rules.filters[0])),
        ("score", "fresh", "$.rules.scores[0]", digest(policy.rules.scores[0])),
        ("score", "in-zone", "$.rules.scores[1]", digest(policy.rules.scores[1])),
    ]
    assert row.rules[2].expression == '(node.zone == "a")'
    assert len({each.hash for each in row.rules}) == 3


def test_decisions_of_all_replicas_are_in_one_order() -> None:
    def row(at: str, replica: str) -> DecisionRow:
        return DecisionRow(f"{replica}-{at}", at, replica, "shop/web", "u", "filter", 1, 1, [], [], "")

    ours = [row("12:00:03Z", "a"), row("12:00:01Z", "a")]
    theirs = [row("12:00:04Z", "b"), row("12:00:02Z", "b")]
    assert [each.id for each in newest_first([ours, theirs])] == [
        "b-12:00:04Z",
        "a-12:00:03Z",
        "b-12:00:02Z",
        "a-12:00:01Z",
    ]
