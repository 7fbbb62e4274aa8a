"""`leadsman rewards`, and what is said when no extender can be asked."""

from extender.api.requests import ListPage
from extender.api.rewards import RewardCell, RewardMatrix
from leadsman.cli import views
from tests.leadsman.cli.conftest import Called, Started

GOOD = RewardCell(1.0, 0.9, 0.8, 1.0, 0.1, 0.9, 30.0, 30.0, 0.0, 1.0, {}, "", 5.0)
BAD = RewardCell(0.1, 0.2, 0.1, 0.4, 0.95, 0.9, 7.0, 1.0, 6.0, 0.2, {"crash": 6}, "crash", 5.0)


def test_the_worst_node_of_a_type_comes_first_and_what_is_unknown_has_no_line() -> None:
    matrix = RewardMatrix("compared", ["db", "web"], ListPage(["a", "b"], None, 2), [[GOOD, None], [GOOD, BAD]])
    header, *lines = views.reward_text(matrix, "", "").splitlines()
    assert header.split()[:3] == ["TYPE", "NODE", "VALUE"]
    assert [line.split()[:2] for line in lines] == [["db", "a"], ["web", "b"], ["web", "a"]]
    assert lines[1].endswith("6 crash")


async def test_what_is_not_known_is_an_answer_that_says_what_was_asked(started: Started, called: Called) -> None:
    async with started() as ports:
        flags = ("--type", "db", "--node", "node-00002", "--extender", f"http://127.0.0.1:{ports['api']}")
        assert await called("rewards", *flags) == (0, "no node reports rewards of type db on node node-00002\n", "")
