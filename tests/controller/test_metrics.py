"""What the controller's pages show."""

from controller.metrics import plan_json
from leadsman.planning.labels.model import LabelPlan, PlanMemory


def test_a_replica_without_a_plan_says_why() -> None:
    assert plan_json(None) == {"none": "this replica has no plan: another one leads, or none is made yet"}


def test_a_plan_shows_what_is_done_what_is_withheld_and_what_is_stopped() -> None:
    assert set(plan_json(LabelPlan((), (), (), PlanMemory()))) == {"actions", "withheld", "stopped"}
