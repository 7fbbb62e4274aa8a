"""What the controller's pages show."""

from controller.metrics import shown
from decision.remedies import Memory, Plan


def test_a_replica_without_a_plan_says_why():
    assert shown(None) == {"none": "another replica leads, or nothing was planned yet"}


def test_a_plan_shows_what_is_done_what_is_withheld_and_what_is_stopped():
    assert set(shown(Plan((), (), (), Memory()))) == {"actions", "withheld", "stopped"}
