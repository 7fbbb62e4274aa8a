"""Placeholders that kube-scheduler would evict, dead nodes and held room, over HTTP with a real scheduler's bodies."""

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from extender.decider import DecisionCore
from extender.wire.verbs import read_preemption
from leadsman.decision.decide import FilterResult
from leadsman.decision.inputs import LastRoundTrips, RoomHold, SelfHealing
from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import captured, labelled, starts

NAMES = ["node-00000", "node-00001", "node-00002"]
OWNER = "rs-web"


def victims(body: bytes) -> dict[str, list[str]]:
    """Node → UIDs, in either form."""
    args = read_preemption(body)
    return {node: [pod.uid for pod in each.pods or ()] for node, each in args.victims.items()}


def preempting(body: bytes, priority: int = 1000, owner: str = "", kind: str = "ReplicaSet") -> bytes:
    """The captured body, with this priority and controller."""
    args: dict[str, Any] = json.loads(body)
    args["Pod"]["spec"]["priority"] = priority
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web-5d", "uid": owner, "controller": True}
        args["Pod"]["metadata"]["ownerReferences"] = [reference]
    return json.dumps(args).encode()


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


@pytest.mark.parametrize(
    "stated",
    [
        {"backup_owners": {"node-00001": frozenset({OWNER})}},
        {"holds": {"node-00001": (RoomHold(OWNER, time.monotonic() + 3600.0),)}},
    ],
    ids=["covered there", "held for it there"],
)
async def test_a_placeholder_gives_way_to_the_pod_that_it_stands_for(stated: dict[str, Any]) -> None:
    body = preempting(captured("preempt-names"), 0, OWNER)
    async with starts(self_healing=healing(body, **stated)) as extender:
        answer = await extender.asked("/preempt", body)
        assert sorted(answer["NodeNameToMetaVictims"]) == ["node-00001", "node-00002"]


async def test_a_dead_node_is_refused_in_filter_and_preempt(measured: Snapshot) -> None:
    dead = Followed(SelfHealing(refused={"node-00001": "4 of 4 peers lost it"}))
    bound = {"delay_node-00000": "25"}
    async with starts(measured, self_healing=dead) as extender:
        refused = await extender.asked("/filter", labelled(captured("names-3-filter"), bound))
        kept = await extender.asked("/preempt", labelled(captured("preempt-names"), bound))
        plain = await extender.asked("/filter", captured("names-3-filter"))
    assert "4 of 4 peers lost it" in refused["FailedAndUnresolvableNodes"]["node-00001"]
    assert "node-00001" not in kept["NodeNameToMetaVictims"]
    assert sorted(plain["NodeNames"]) == NAMES
