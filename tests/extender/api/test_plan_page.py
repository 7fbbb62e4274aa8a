"""The plan that the page shows, of what the controllers say."""

from collections.abc import Sequence
from typing import cast

from extender.api.contract.cluster import Plan, WithheldAction
from extender.api.contract.decisions import SilentReplica
from extender.api.plan_page import NO_LEADER, NOT_ASKED, current_plan
from extender.peers.client import PeerAnswer, PeerClient, SilentPeer
from leadsman.published.plan_summary import PlannedAction, PlanSummary
from leadsman.published.plan_summary import WithheldAction as Withheld
from tests.extender.api.test_replica_answers import Peers, answer

DONE = PlannedAction("label node", "node edge-1", "it is hot")
LEADING = PlanSummary(60.0, True, False, [DONE], [Withheld("move pod", "pod shop/cart", "far", "budget", 0.0)])
FOLLOWING = PlanSummary(70.0, False, False)
SILENT = SilentPeer("controller-1", "no answer within 450 ms")


async def plan_of(*answers: PeerAnswer, silent: Sequence[SilentPeer] = ()) -> Plan:
    return await current_plan(cast(PeerClient, Peers(*answers, silent=silent)))


async def test_the_leader_s_plan_is_shown() -> None:
    shown = await plan_of(answer("controller-1", FOLLOWING), answer("controller-2", LEADING))
    assert (shown.unknown, shown.leader, shown.at) == ("", "controller-2", "1970-01-01T00:01:00Z")
    assert shown.actions == [DONE]
    assert shown.withheld == [WithheldAction("move pod", "pod shop/cart", "far", "budget", "1970-01-01T00:00:00Z")]


async def test_of_two_that_lead_while_the_lease_changes_hands_the_newer_answer_is_shown() -> None:
    old = PlanSummary(59.0, True, False)
    assert (await plan_of(answer("a", LEADING), answer("b", old))).leader == "a"


async def test_a_silent_controller_beside_the_leader_is_named() -> None:
    shown = await plan_of(answer("controller-2", LEADING), silent=[SILENT])
    assert (shown.leader, shown.partial) == ("controller-2", [SilentReplica("controller-1", SILENT.error)])


async def test_the_plan_is_unknown_while_who_leads_may_be_silent() -> None:
    shown = await plan_of(answer("controller-2", FOLLOWING), silent=[SILENT])
    assert shown.unknown == (
        "the controller that leads does not answer, or none leads: controller-1: no answer within 450 ms"
    )
    assert (shown.leader, shown.actions) == (None, ())


async def test_the_plan_is_unknown_while_none_leads() -> None:
    assert (await plan_of(answer("controller-2", FOLLOWING))).unknown == NO_LEADER


async def test_without_a_controller_the_plan_is_unknown() -> None:
    assert "no controller runs" in (await plan_of()).unknown
    assert (await current_plan(None)).unknown == NOT_ASKED
