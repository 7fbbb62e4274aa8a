"""`leadsman rewards`, and what is said when no extender can be asked."""

from extender.api.requests import ListPage
from extender.api.rewards import RewardCell, RewardMatrix
from leadsman.cli import views

GOOD = RewardCell(1.0, 0.9, 0.8, 1.0, 0.1, 0.9, 30.0, 30.0, 0.0, 1.0, {}, "", 5.0)
BAD = RewardCell(0.1, 0.2, 0.1, 0.4, 0.95, 0.9, 7.0, 1.0, 6.0, 0.2, {"crash": 6}, "crash", 5.0)


def test_the_worst_node_of_a_type_comes_first_and_what_is_unknown_has_no_line() -> None:
    matrix = RewardMatrix("compared", ["db", "web"], ListPage(["a", "b"], None, 2), [[GOOD, None], [GOOD, BAD]])
    header, *lines = views.reward_text(matrix, "", "").splitlines()
    assert header.split()[:3] == ["TYPE", "NODE", "VALUE"]
    assert [line.split()[:2] for line in lines] == [["db", "a"], ["web", "b"], ["web", "a"]]
    assert lines[1].endswith("6 crash")
