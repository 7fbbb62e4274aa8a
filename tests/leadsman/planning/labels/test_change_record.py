"""The next leader goes on counting what the last one changed."""

import pytest

from leadsman.kube.names import CHANGES_ANNOTATION
from leadsman.planning.labels.label_plan import (
    MAX_LABELS,
    MAX_TIMES,
    LabelLimits,
    NodeView,
    format_changes,
    parse_changes,
)
from tests.leadsman.planning.labels.label_cluster import HOT, Cluster

LIMITS = LabelLimits(max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=60.0, max_flips_per_hour=6)
WALL = 1.7e9


def flap(cluster: Cluster, rounds: int) -> int:
    """Heats or cools node a so many times, a minute each. Returns how many changes were made."""
    made = 0
    for _ in range(rounds):
        metrics = {"heat": {"a": 1 if cluster.ours("a") else 101}}
        made += len(cluster.step([HOT], metrics, after=61.0).actions)
        cluster.step([HOT], metrics)  # Which sees the change.
    return made


def test_a_new_leader_holds_back_what_the_last_one_changed_too_often() -> None:
    cluster = Cluster("a", limits=LIMITS, wall_ahead=WALL)
    assert flap(cluster, 4) == 4
    cluster.change_leader()
    assert flap(cluster, 6) == 2
    made = cluster.step([HOT], {"heat": {"a": 101}}, after=61.0)
    assert "changed 6 times within an hour (limit 6)" in made.withheld[0].why


def test_a_wall_clock_that_went_back_makes_no_change_to_come() -> None:
    node = NodeView("a", annotations={CHANGES_ANNOTATION: f'{{"p":[{WALL - 9:.0f},{WALL + 500:.0f}]}}'})
    assert dict(parse_changes(node, WALL)) == {"p": [9.0, 0.0]}


@pytest.mark.parametrize("record", ["", "{", "[]", '{"p":1}', '{"p":["x"]}'])
def test_a_record_that_nobody_can_read_says_nothing(record: str) -> None:
    assert list(parse_changes(NodeView("a", annotations={CHANGES_ANNOTATION: record}), WALL)) == []


def test_a_record_is_bounded_and_keeps_what_changed_most() -> None:
    changed_at = {f"label-{number}": [WALL] for number in range(2 * MAX_LABELS)} | {"often": [WALL] * (2 * MAX_TIMES)}
    record = format_changes(changed_at)
    assert record is not None
    ages = dict(parse_changes(NodeView("a", annotations={CHANGES_ANNOTATION: record}), WALL))
    assert len(ages) == MAX_LABELS
    assert len(ages["often"]) == MAX_TIMES
