"""PromQL of the delay history, and what is read from its responses."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.contract.delays import SPANS_SECONDS
from extender.api.prometheus_queries import (
    MAX_POINTS,
    RTT,
    Unanswered,
    quoted,
    read_medians,
    read_pair,
    read_pairs,
    step_for,
)
from leadsman.sources.telemetry.range_query import RangeSeries, range_request, range_series


@given(st.sampled_from(sorted(SPANS_SECONDS.values())))
def test_no_span_has_more_than_300_steps(span: int) -> None:
    assert span / step_for(span) <= MAX_POINTS
    assert span % step_for(span) == 0


@given(st.text())
def test_a_string_ends_at_its_end_alone_and_is_read_as_it_was(text: str) -> None:
    inner = quoted(text)[1:-1]
    assert "\n" not in inner
    assert re.fullmatch(r'([^"\\]|\\.)*', inner, re.DOTALL)
    assert re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], inner) == text


MOMENTS = range(0, 61, 15)


def test_a_moment_without_a_value_is_unknown_and_not_zero() -> None:
    pair = RangeSeries({"of": "pair"}, ((0.0, "0.0051"), (30.0, "NaN"), (45.0, "+Inf"), (60.0, "0")))
    answer = read_pair([pair], "a", "b", MOMENTS)
    assert not isinstance(answer, Unanswered)
    assert [moment.rtt_ms for moment in answer.moments] == [5.1, None, None, None, 0]


def test_a_pair_without_a_series_is_one_that_rotates_where_its_nodes_have_others() -> None:
    answer = read_pair([RangeSeries({"of": "nodes"}, ((0.0, "20"),))], "a", "b", MOMENTS)
    assert isinstance(answer, Unanswered)
    assert "only peers on the ring" in answer.reason


def test_nodes_without_series_are_not_scraped() -> None:
    answer = read_pair([], "a", "b", MOMENTS)
    assert isinstance(answer, Unanswered)
    assert "let it scrape the agents" in answer.reason


def test_series_without_the_label_of_the_node_are_no_node() -> None:
    answer = read_medians([RangeSeries({}, ((0.0, "0.005"), (60.0, "0.005")))], 0, 60)
    assert isinstance(answer, Unanswered)
    assert "with the node's name as the label node" in answer.reason


def test_a_node_has_a_median_at_the_moments_at_which_it_was_scraped() -> None:
    series = [
        RangeSeries({"node": "a"}, ((0.0, "0.005"), (60.0, "0.007"))),
        RangeSeries({"node": "b"}, ((60.0, "0.009"),)),
    ]
    answer = read_medians(series, 0, 60)
    assert not isinstance(answer, Unanswered)
    assert (answer.before.by_node, answer.after.by_node) == ({"a": 5.0}, {"a": 7.0, "b": 9.0})


def test_a_pair_with_one_value_has_no_change() -> None:
    series = [
        RangeSeries({"node": "a", "peer": "b"}, ((60.0, "0.009"),)),
        RangeSeries({"node": "a", "peer": "c"}, ((0.0, "0.005"), (60.0, "0.007"))),
        RangeSeries({"node": "a", "peer": "d"}, ((0.0, "0.009"), (60.0, "0.003"))),
    ]
    assert [(pair.target, pair.change_ms) for pair in read_pairs(series, 0, 60)] == [("d", -6.0), ("c", 2.0)]


def test_a_range_is_asked_for_by_its_ends_and_step() -> None:
    request = range_request(RTT, 0, 60, 15)
    assert request.query == {"query": RTT, "start": "0", "end": "60", "step": "15"}


@pytest.mark.parametrize(
    ("body", "series"), [(b"{}", 0), (b'{"data": {"result": null}}', 0), (b'{"data": {"result": [{}]}}', 1)]
)
def test_what_prometheus_leaves_out_is_empty(body: bytes, series: int) -> None:
    assert len(range_series(body)) == series
