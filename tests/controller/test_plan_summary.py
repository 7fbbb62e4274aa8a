"""The plans of all that a controller does, as one summary: what is listed, and since when."""

import pytest

from controller.plan_summary import MAX_LISTED, HeldBack, PlanPart, PlanSummaries, label_part
from leadsman.decision.telemetry.taspolicy import PolicyKey
from leadsman.planning.labels.model import LabelAction, LabelPlan, NodePatch, PlanMemory, WithheldAction
from leadsman.published.plan_summary import PlannedAction


class Controller:
    """Its parts' plan, whether it leads, and the time."""

    def __init__(self) -> None:
        self.part, self.leads, self.now = PlanPart(), True, 100.0
        self.summaries = PlanSummaries([lambda: self.part], lambda: self.leads, False, lambda: self.now)


@pytest.fixture
def controller() -> Controller:
    return Controller()


HELD = HeldBack("label node", "node edge-1", "it is hot", "the budget is spent")
ACTION = LabelAction("edge-1", "hot", "violating", None, PolicyKey("shop", "hot"), "temperature 91 > 80")


async def test_since_is_when_the_leader_saw_it_first(controller: Controller) -> None:
    controller.part = PlanPart(withheld=[HELD])
    await controller.summaries.follow()
    controller.now = 160.0
    await controller.summaries.follow()
    (shown,) = controller.summaries.current().withheld
    assert (shown.since, shown.why) == (100.0, "the budget is spent")


async def test_another_reason_is_still_the_same_action(controller: Controller) -> None:
    controller.part = PlanPart(withheld=[HELD])
    await controller.summaries.follow()
    controller.now, controller.part = (
        160.0,
        PlanPart(withheld=[HeldBack(HELD.kind, HELD.object, HELD.reason, "frozen")]),
    )
    await controller.summaries.follow()
    assert controller.summaries.current().withheld[0].since == 100.0


async def test_what_was_not_withheld_in_between_begins_again(controller: Controller) -> None:
    for controller.now, controller.part in ((100.0, PlanPart(withheld=[HELD])), (110.0, PlanPart())):
        await controller.summaries.follow()
    controller.now, controller.part = 120.0, PlanPart(withheld=[HELD])
    await controller.summaries.follow()
    assert controller.summaries.current().withheld[0].since == 120.0


def test_a_replica_that_does_not_lead_says_only_that(controller: Controller) -> None:
    controller.leads, controller.part = False, PlanPart(withheld=[HELD], unplanned="not listed")
    summary = controller.summaries.current()
    assert (summary.is_leader, summary.withheld, summary.unplanned) == (False, (), ())


def test_what_is_not_listed_is_counted(controller: Controller) -> None:
    controller.part = PlanPart([PlannedAction("move pod", f"pod {number}", "") for number in range(MAX_LISTED + 3)])
    summary = controller.summaries.current()
    assert (len(summary.actions), summary.left_out) == (MAX_LISTED, 3)


def test_no_label_plan_is_unknown_and_not_empty() -> None:
    assert label_part(None).unplanned.startswith("labels: no plan is made yet")
    assert label_part(LabelPlan((), (), (), PlanMemory())) == PlanPart([], [], ())


def test_a_label_plan_names_node_label_and_reason() -> None:
    patch = NodePatch("edge-1", {"hot": "violating"}, {}, (ACTION,))
    part = label_part(
        LabelPlan((patch,), (WithheldAction(ACTION, "5 of 50 nodes are marked"),), ("stale",), PlanMemory())
    )
    reason = "set label hot=violating on node edge-1: temperature 91 > 80"
    assert [(each.object, each.reason) for each in part.actions] == [("node edge-1", reason)]
    (held,) = part.withheld
    assert (held.object, held.why) == ("node edge-1, label hot", "5 of 50 nodes are marked")
    assert part.stopped == ("stale",)
