"""Labels and lines → bounds: exact names, plain decimal milliseconds, nothing guessed, nothing left out."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.delay import bounds
from leadsman.decision.delay.bounds import MAX_ANNOTATION_CHARACTERS, MAX_BOUNDS, BadBound, DelayBound, ReplicaMode
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import EstimateMode
from leadsman.kube.names import DELAY_ANNOTATION, ESTIMATE_ANNOTATION, REPLICAS_ANNOTATION
from leadsman.runtime.text_table import one_line


def of(labels: dict[str, str], **annotations: str) -> tuple[DelayBound, ...]:
    return bounds.parse_bounds(PodInfo("ns", "p", labels=labels, annotations=annotations))


def lines(text: str, **others: str) -> tuple[DelayBound, ...]:
    return of({}, **{DELAY_ANNOTATION: text}, **others)


@pytest.mark.parametrize(("value", "ms"), [("25", 25.0), ("2.5", 2.5), ("0", 0.0), ("0.05", 0.05), ("007", 7.0)])
def test_a_plain_decimal_number_is_a_bound(value: str, ms: float) -> None:
    assert of({"delay_edge-1": value}) == lines(f"edge-1: {value}") == (DelayBound("edge-1", ms),)


@pytest.mark.parametrize(
    "value", ["-1", "abc", "", "nan", "inf", "1e3", "+5", " 5", "5 ", "5\n", ".5", "5.", "1_000", "25ms", "٣", "0x5"]
)
def test_any_other_value_is_refused_with_label_and_value(value: str) -> None:
    with pytest.raises(BadBound) as caught:
        of({"app": "x", "delay_edge-1": value})
    assert (
        str(caught.value)
        == f'label delay_edge-1: "{one_line(value)}" is not valid; use milliseconds such as "25" or "2.5"'
    )


def test_a_bound_above_what_any_probe_waits_for_is_refused_with_the_reason() -> None:
    assert of({"delay_edge-1": "10000"})[0].ms == 10_000
    with pytest.raises(BadBound, match='label delay_edge-1: "10001" is more than 10000 ms, the longest measured'):
        of({"delay_edge-1": "10001"})


def test_a_label_that_names_nothing_is_refused() -> None:
    with pytest.raises(BadBound, match="label delay_ names no node or workload; write"):
        of({"delay_": "5"})


def test_all_labels_count_and_dots_belong_to_the_name() -> None:
    labels = {"delay_b.example.com": "2", "app": "x", "delay_a": "1"}
    assert of(labels) == (DelayBound("a", 1.0), DelayBound("b.example.com", 2.0))


def test_each_line_is_a_bound_with_its_own_options() -> None:
    text = """
        # close to the shop, and to any cache
        node/edge-1: 25
        deployment/web:2.5 all reject
        shop/statefulset/db : 10  accept   nearest   # the nearest replica
    """
    assert lines(text) == (
        DelayBound("node/edge-1", 25.0),
        DelayBound("deployment/web", 2.5, ReplicaMode.ALL, EstimateMode.REJECT),
        DelayBound("shop/statefulset/db", 10.0, ReplicaMode.NEAREST, EstimateMode.ACCEPT),
    )


def test_the_pods_defaults_are_for_labels_and_lines_that_say_nothing_else() -> None:
    defaults = {REPLICAS_ANNOTATION: "nearest", ESTIMATE_ANNOTATION: "reject", DELAY_ANNOTATION: "b: 2 all accept"}
    assert of({"delay_a": "1"}, **defaults) == (
        DelayBound("a", 1.0, ReplicaMode.NEAREST, EstimateMode.REJECT),
        DelayBound("b", 2.0, ReplicaMode.ALL, EstimateMode.ACCEPT),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nweb 25", 'line 2: "web 25" is not valid; write "<from>: <ms>", such as "deployment/web: 2.5"'),
        ("a:", 'line 1: "a:" is not valid; write "<from>: <ms>"'),
        ("a: -1", 'line 1: "-1" is not valid; use milliseconds such as "25" or "2.5"'),
        ("a: 25ms", 'line 1: "25ms" is not valid; use milliseconds'),
        ("a: 5 closest", 'line 1: "closest" is not valid; use all, nearest, accept, upper-bound, reject'),
        ("A_b: 5", 'line 1: "A_b" is not valid; use a name, kind/name or namespace/kind/name'),
        ("a/b/c/d: 5", 'line 1: "a/b/c/d" is not valid; use a name'),
        ("/b: 5", 'line 1: "/b" is not valid; use a name'),
        ("a, b: 5", 'line 1: "a, b: 5" is not valid; write "<from>: <ms>"'),
        ("a: x" + "y" * 99, f'"x{"y" * 62}…" is not valid'),
        ("x" * (MAX_ANNOTATION_CHARACTERS + 1), "has 4,097 characters; at most 4,096 are allowed"),
        ("a: 1\n" * (MAX_BOUNDS + 1), "has 33 delay bounds; at most 32 are allowed"),
    ],
)
def test_a_bad_line_is_named_with_what_stands_there_and_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(BadBound) as caught:
        lines(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "allowed"),
    [(REPLICAS_ANNOTATION, "all, nearest"), (ESTIMATE_ANNOTATION, "accept, upper-bound, reject")],
)
def test_a_bad_default_is_refused_only_where_there_is_a_bound(annotation: str, allowed: str) -> None:
    with pytest.raises(BadBound, match=f'annotation {annotation}: "some" is not valid; use {allowed}'):
        of({"delay_a": "1"}, **{annotation: "some"})
    assert of({}, **{annotation: "some"}) == ()


@given(st.dictionaries(st.text(max_size=20).map(lambda name: f"delay_{name}"), st.text(max_size=70)), st.text())
def test_any_text_is_bounds_or_a_bad_bound(labels: dict[str, str], text: str) -> None:
    with suppress(BadBound):
        assert all(0 <= bound.ms < float("inf") for bound in of(labels, **{DELAY_ANNOTATION: text}))


@given(st.from_regex(r"[a-z0-9./: #]{0,30}", fullmatch=True))
def test_a_line_is_never_dropped(text: str) -> None:
    """Whatever stands before a comment is a bound or refused."""
    with suppress(BadBound):
        assert len(lines(text)) == bool(text.partition("#")[0].strip())
