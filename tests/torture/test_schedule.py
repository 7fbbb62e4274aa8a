"""Which rows run, by seed."""

from itertools import islice

from tests.torture import schedule
from tests.torture.all_rows import ROWS

ALL = list(ROWS.values())


def test_a_seed_has_one_order_of_all_rows() -> None:
    first, second = schedule.shuffled(ALL, 1), schedule.shuffled(ALL, 2)
    assert first == schedule.shuffled(ALL, 1)
    assert sorted(first) == sorted(second) == sorted(ALL)
    assert first != second


def test_rows_that_overlap_touch_different_things() -> None:
    for group in islice(schedule.overlaps(ALL, 3), 200):
        touched = [thing for _, row in group for thing in row.touches]
        assert len(touched) == len(set(touched))
        assert 1 < len(group) <= schedule.OVERLAPPING


def test_every_row_says_what_it_does_in_one_line() -> None:
    assert all(row.says and len(row.says) < 120 for row in ALL)
