"""When a replica is ready: with its view, or when that is known not to come."""

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.app import FAILED_LISTING_GRACE_SECONDS, REPORTS_GRACE_SECONDS, SLOW_LISTING_GRACE_SECONDS, Readiness
from leadsman.runtime.problem_log import ProblemLog


class Listed:
    """A source whose listing has not ended yet."""

    def __init__(self, problem: str = "") -> None:
        self.loaded = asyncio.Event()
        self.problem = ProblemLog(logging.getLogger(__name__), "cannot list", "is listed")
        if problem:
            self.problem.report(problem)


def ready(sources: dict[str, Listed], age_seconds: float) -> bool:
    return Readiness(sources, 100.0).check(100.0 + age_seconds).is_good


def test_it_is_ready_as_soon_as_all_is_listed() -> None:
    etcd, pods = Listed(), Listed()
    readiness = Readiness({"etcd": etcd, "pods": pods}, 100.0)
    etcd.loaded.set()
    assert readiness.check(100.1) == (False, "waits for the first listing of pods (no error so far)")
    pods.loaded.set()
    assert readiness.check(100.2) == (True, "ok")


def test_a_source_that_lists_without_an_error_is_waited_for_longer() -> None:
    sources = {"etcd": Listed(), "pods": Listed("forbidden")}
    assert not ready(sources, FAILED_LISTING_GRACE_SECONDS)
    assert not ready(sources, SLOW_LISTING_GRACE_SECONDS - 0.1)
    assert ready(sources, SLOW_LISTING_GRACE_SECONDS)


def test_each_node_s_next_report_is_waited_for_and_no_longer_than_reports_count() -> None:
    missing = iter([2, 0])
    readiness = Readiness({}, 0.0, lambda _: next(missing))
    assert readiness.check(1.0) == (False, "waits for each node's next report (2 missing)")
    assert readiness.check(2.0).is_good
    assert Readiness({}, 0.0, lambda _: 1).check(REPORTS_GRACE_SECONDS).is_good


def test_ready_without_a_source_it_names_it_and_why_on_the_page_and_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    readiness = Readiness({"etcd": Listed("no route to host")}, 0.0)
    for now in (20.0, 21.0):
        text = "decides without news of etcd (no route to host)"
        assert readiness.check(now) == (True, f"ok; {text}")
    assert [record.message for record in caplog.records if record.name == "extender.app"] == [
        f"this replica is ready, but {text}"
    ]


def test_it_stays_ready_without_what_it_can_follow_no_longer_and_says_so() -> None:
    etcd = Listed()
    etcd.loaded.set()
    readiness = Readiness({"etcd": etcd}, 0.0)
    readiness.check(1.0)
    etcd.problem.report("permission denied")
    assert readiness.check(2.0) == (True, "ok; decides without news of etcd (permission denied)")
    etcd.problem.clear()
    assert readiness.check(3.0) == (True, "ok")


@given(st.lists(st.tuples(st.sampled_from(["fails", "works", "loads"]), st.integers(0, 2), st.floats(0, 60))))
def test_once_ready_it_stays_ready_whatever_its_sources_do(steps: list[tuple[str, int, float]]) -> None:
    sources = [Listed() for _ in range(3)]
    readiness, now, was_ready = Readiness({str(i): one for i, one in enumerate(sources)}, 0.0), 0.0, False
    for what, number, seconds in steps:
        now += seconds
        source = sources[number]
        if what == "fails":
            source.problem.report("x")
        elif what == "works":
            source.problem.clear()
        else:
            source.loaded.set()
        is_ready = readiness.check(now).is_good
        assert is_ready or not was_ready
        was_ready = is_ready
