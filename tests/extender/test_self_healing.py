"""Placeholders that kube-scheduler would evict, dead nodes and held room, over HTTP with a real scheduler's bodies."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from extender.decider import DecisionCore
from extender.wire.verbs import read_preemption
from leadsman.decision.decide import FilterResult
from leadsman.decision.inputs import LastRoundTrips, SelfHealing
from tests.extender.conftest import captured, starts

NAMES = ["node-00000", "node-00001", "node-00002"]


def victims(body: bytes) -> dict[str, list[str]]:
    """Node → UIDs, in either form."""
    args = read_preemption(body)
    return {node: [pod.uid for pod in each.pods or ()] for node, each in args.victims.items()}


class Followed(NamedTuple):
    """What an extender follows of self-healing."""

    current: SelfHealing
    last_round_trips: Mapping[str, LastRoundTrips] = {}


def healing(body: bytes, **stated: Any) -> Followed:
    """The only victim on the first node, and the one on the second, are placeholders."""
    named = victims(body)
    return Followed(SelfHealing(placeholders=frozenset([*named[NAMES[0]], *named[NAMES[1]]]), **stated))


@pytest.mark.parametrize("form", ["names", "nodes"])
async def test_preempt_keeps_out_nodes_where_a_placeholder_would_go(form: str) -> None:
    body = captured(f"preempt-{form}")
    async with starts(self_healing=healing(body)) as extender:
        answer = await extender.asked("/preempt", body)
        pods = [{"UID": uid} for uid in victims(body)["node-00002"]]
        assert answer == {"NodeNameToMetaVictims": {"node-00002": {"Pods": pods, "NumPDBViolations": 0}}}
        assert extender.count("leadsman_extender_protected_placeholders_total") == 2
        labels = {"verb": "preempt", "result": "restricted", "reason": "self-healing"}
        assert extender.count("leadsman_extender_decisions_total", **labels) == 1


async def test_placeholders_stay_when_a_plugin_fails() -> None:
    """Every other node is neutral then."""

    def broken(*_: object) -> FilterResult:
        raise ZeroDivisionError

    body = captured("preempt-names")
    async with starts(self_healing=healing(body), core=DecisionCore(filter_nodes=broken)) as extender:
        assert list((await extender.asked("/preempt", body))["NodeNameToMetaVictims"]) == ["node-00002"]
