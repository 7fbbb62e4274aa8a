"""Whom a bound and a preference trust: a lost direction, a report that nobody confirms, a node that is gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import decide, filter_nodes
from leadsman.decision.delay.bounds import BadBound, NoTarget, parse_bounds, resolve_bounds
from leadsman.decision.delay.delay_plugins import NEAREST
from leadsman.decision.explain import explain
from leadsman.decision.inputs import SourceRow
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DelayPolicy, Policy
from tests.leadsman.decision.conftest import Make

REF = PodInfo("default", "p", labels={"delay_ref": "40"})
delays = st.floats(1, 100)


class Matrix:
    """A static matrix that names a node of the past."""

    source, read_at, fresh_until, nodes = "static", None, float("inf"), frozenset({"ref", "near"})

    def row(self, reference: str) -> SourceRow:
        return SourceRow({"near": 3.0}) if reference == "ref" else SourceRow()


@pytest.mark.parametrize(("forward", "backward"), [(None, 32.6), (32.6, None)])
def test_a_lost_direction_is_no_reply_whatever_the_other_one_measured(
    make: Make, forward: float | None, backward: float | None
) -> None:
    inputs = make.facts({"ref": make.state({"n": forward}), "n": make.state({"ref": backward})})
    kept, refused = filter_nodes(REF, ["n"], inputs)
    assert (kept, refused["n"].reason) == ((), "no reply between the node and ref")
    [explained] = explain(decide(REF, ["n"], inputs), inputs).nodes
    lost, measured = ("ref", "n") if forward is None else ("n", "ref")
    assert f"{lost} gets no reply from {measured}, which measures 32.6 ms back" in explained.reason


def test_where_nodes_are_followed_one_that_is_not_there_is_missing_unless_it_is_a_declared_site(make: Make) -> None:
    """Whatever a static file says of it, or a report that has not run out."""
    states = {"ref": make.state({"near": 3.0}), "near": make.state({"ref": 3.0})}
    inputs = make.facts(states, delay_views=(Matrix(),))
    followed = structs.replace(inputs, node_roles={"near": ""})
    declared = structs.replace(followed, policy=Policy(DelayPolicy(sites=("ref",))))
    assert filter_nodes(REF, ["near"], inputs).kept == ("near",)
    assert filter_nodes(REF, ["near"], followed).refused["near"].reason.startswith("no such node ref")
    assert filter_nodes(REF, ["near"], declared).kept == ("near",)
    assert filter_nodes(REF, ["near"], structs.replace(inputs, node_roles={"near": "", "ref": "cloud"})).kept


@given(
    honest=st.lists(delays, min_size=2, max_size=6), truth_ms=delays, lie_ms=st.floats(0.001, 100), second=st.booleans()
)
def test_a_liar_whom_nobody_confirms_is_unknown_and_one_whom_the_other_end_measures_gains_nothing(
    make: Make, honest: list[float], truth_ms: float, lie_ms: float, second: bool
) -> None:
    """One liar among n, with and without a report of the reference about it."""
    names = [f"n-{number}" for number in range(len(honest))]
    peers = dict(zip(names, honest, strict=True)) | ({"liar": truth_ms} if second else {})
    states = {name: make.state({"ref": ms}) for name, ms in zip(names, honest, strict=True)}
    states |= {"liar": make.state({"ref": lie_ms}), "ref": make.state(peers)}
    pod = PodInfo("default", "p", labels={"delay_ref": "100"})
    inputs = make.facts(states)
    decision = decide(pod, [*names, "liar"], inputs)
    [nearest] = [each for each in decision.plugin_scores if each.plugin == NEAREST]
    says_so = (
        "liar alone reports it, and nobody confirms it"
        in explain(decision, inputs).nodes[[each.node for each in explain(decision, inputs).nodes].index("liar")].reason
    )
    if second:
        truthful = make.facts(states | {"liar": make.state({"ref": truth_ms})})
        [of_truth] = [each for each in decide(pod, [*names, "liar"], truthful).plugin_scores if each.plugin == NEAREST]
        assert nearest.values["liar"] <= of_truth.values["liar"] + 1e-9
        assert not says_so
    else:
        assert "liar" in nearest.unknown
        assert decision.scores["liar"] <= max(decision.scores[name] for name in names)
        assert says_so


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({}, {"leadsman.dev/delay": "n1: \x1b]0;pwned\x07\x1b[31m5"}),
        ({}, {"leadsman.dev/delay": "n1\u202e: 5"}),
        ({}, {"leadsman.dev/delay": "n1: 5 \x1b[2J"}),
        ({}, {"leadsman.dev/delay-replicas": "\x1b[31m", "leadsman.dev/delay": "n1: 5"}),
        ({"delay_n1": "5\r\n"}, {}),
        ({"delay_\x1b[31mn1": "5"}, {}),
    ],
)
def test_a_reason_has_no_control_character(make: Make, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Also where it goes to an Event without a decision."""
    pod = PodInfo("default", "p", labels=labels, annotations=annotations)
    _, refused = filter_nodes(pod, ["n"], make.facts({}))
    assert refused["n"].reason.isprintable()
    try:
        [target] = resolve_bounds(parse_bounds(pod), pod, ["n"], make.facts({}))
        text = target.reason if isinstance(target, NoTarget) else ""
    except BadBound as error:
        text = str(error)
    assert text.isprintable()
    assert text
