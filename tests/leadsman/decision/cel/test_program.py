"""Programs of expressions: split over a node and a pod, they say what a CEL library says of the whole."""

import math
from typing import Any

import cel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.decision.cel.functions import as_number
from leadsman.decision.cel.program import Program
from leadsman.decision.cel.syntax import BadExpression
from leadsman.decision.model import PodInfo
from leadsman.decision.rule_schema import NODE_FRESH, NODE_OBJECT, NODE_REPORT, POD, NodeObject, compile_rule
from leadsman.state.records import Hardware, Identity
from leadsman.state.snapshot import NodeState

TEXTS = st.sampled_from(["", "a", "b", "edge", "edge-1", "12", "-3", "2.5", "1e3", "é"])
NUMBERS = st.sampled_from([0.0, 0.25, 1.0, -2.5, 80.0])
MAPS = st.dictionaries(st.sampled_from(["x", "y"]), TEXTS, max_size=2)

NODES = st.builds(
    lambda zone, labels, hardware, fresh: (zone, labels, hardware, fresh),
    st.sampled_from(["a", "edge"]),
    MAPS,
    st.dictionaries(st.sampled_from(["x", "y"]), NUMBERS, max_size=2),
    st.booleans(),
)
PODS = st.builds(
    PodInfo,
    st.sampled_from(["a", "edge"]),
    st.sampled_from(["a", "edge-1"]),
    labels=MAPS,
    priority=st.sampled_from([0, 12, -3, 2**31 - 1]),
)


def literal(text: str) -> str:
    return f'"{text}"'


STRINGS = st.one_of(
    TEXTS.map(literal),
    st.sampled_from(['node.labels["x"]', "node.labels.y", "node.zone", 'pod.labels["x"]', "pod.name", "pod.namespace"]),
)
DOUBLES = st.recursive(
    st.one_of(
        NUMBERS.filter(lambda number: number >= 0).map(repr), st.sampled_from(['node.hardware["x"]', "node.hardware.y"])
    ),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("({} / 2.0)".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("double({})".format, STRINGS),
        st.just("double(pod.priority)"),
    ),
    max_leaves=4,
)
INTS = st.one_of(
    st.sampled_from(["0", "7", "pod.priority", "size(node.zone)", "pod.name.size()"]),
    st.builds("int({})".format, STRINGS),
    st.builds("(pod.priority {} {})".format, st.sampled_from(["+", "-", "*", "/", "%"]), st.sampled_from(["2", "0"])),
)
OF_A_KEY = st.sampled_from(["k in node.labels", "node.labels[k] == 'a'", "node.hardware[k] > 0.5", "k.contains('x')"])
BOOLS = st.recursive(
    st.one_of(
        st.sampled_from(["true", "false", "node.fresh", '("x" in node.labels)', "has(pod.labels.y)"]),
        st.builds("({} {} {})".format, DOUBLES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), DOUBLES | INTS),
        st.builds("({} {} {})".format, STRINGS, st.sampled_from(["==", "!="]), STRINGS),
        st.builds("node.zone.{}({})".format, st.sampled_from(["startsWith", "contains"]), TEXTS.map(literal)),
        st.builds("({} in ['a', 'edge'])".format, STRINGS),
        st.builds(
            "node.zone.matches({})".format, st.sampled_from(['"^e"', '"[a-d]"', '"(a|edge)$"', '"e{2,}"', 'r"\\w"'])
        ),
        st.builds("['a', 'edge'].{}(z, z != {})".format, st.sampled_from(["exists", "all", "exists_one"]), STRINGS),
        st.builds("['x', 'y'].{}(k, {})".format, st.sampled_from(["exists", "all", "exists_one"]), OF_A_KEY),
        st.builds("({} in ['x', 'y'].map(k, node.labels[k]))".format, STRINGS),
        st.builds("(size(['x', 'y'].filter(k, {})) > 1)".format, OF_A_KEY),
        st.builds("['x', 'y'].filter(k, {}).map(k, node.labels[k]).exists(v, v == {})".format, OF_A_KEY, STRINGS),
        st.builds("['x', 'y'].filter(k, {}).all(k, {})".format, OF_A_KEY, OF_A_KEY),
    ),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||", "==", "!="]), inner),
        st.builds("!{}".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=8,
)


def split_value(program: Program, node: tuple[Any, ...], pod: PodInfo) -> float:
    zone, labels, hardware, fresh = node
    state = NodeState(Identity("agent", 1, "10.0.0.1", zone), hardware=Hardware(hardware))
    sources = {NODE_REPORT: state, NODE_OBJECT: NodeObject("n", labels), NODE_FRESH: fresh, POD: pod}
    numbers = [np.array([part.number(sources[part.scope])]) for part in program.parts]
    return float(np.broadcast_to(program.joined(numbers), 1)[0])


def whole_value(text: str, node: tuple[Any, ...], pod: PodInfo) -> Any:
    """What the library says of the whole expression; None: an error."""
    zone, labels, hardware, fresh = node
    context = {
        "node": {"zone": zone, "labels": labels, "hardware": hardware, "fresh": fresh},
        "pod": {"name": pod.name, "namespace": pod.namespace, "labels": dict(pod.labels), "priority": pod.priority},
    }
    try:
        return cel.evaluate(text, context)
    except Exception:  # Of several types, some of them built in.
        return None


def is_within_limits(text: str) -> bool:
    try:
        compile_rule(text)
    except BadExpression as error:
        return not any(words in str(error) for words in ("more than", "characters, allowed", "deeper than"))
    return True


@settings(max_examples=300, deadline=None)
@given(BOOLS.filter(is_within_limits), NODES, PODS)
def test_a_split_rule_says_what_a_library_says_of_the_whole(text: str, node: tuple[Any, ...], pod: PodInfo):
    program, expected = compile_rule(text), whole_value(text, node, pod)
    value = split_value(program, node, pod)
    assert math.isnan(value) if expected is None else value == float(expected)


@settings(max_examples=200, deadline=None)
@given(DOUBLES, NODES, PODS)
def test_a_split_score_says_what_a_library_says_of_the_whole(text: str, node: tuple[Any, ...], pod: PodInfo):
    program, expected = compile_rule(text), whole_value(text, node, pod)
    value = split_value(program, node, pod)
    assert math.isnan(value) if expected is None else value == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('quantity("1500m").isGreaterThan(quantity("1"))', True),
        ('quantity("1Gi").compareTo(quantity("1024Mi")) == 0', True),
        ('quantity("1Gi").isLessThan(pod.requests["memory"])', True),
        ('pod.requests["cpu"].asApproximateFloat() == 0.5', True),
        ('pod.requests["cpu"].isInteger()', False),
        ('pod.requests["memory"].sub(quantity("1Gi")).asInteger() == 1073741824', True),
        ('isQuantity("12x") || isQuantity("12k")', True),
        ('quantity("-1").sign() == -1', True),
        ('pod.requests["gpu"].isInteger()', None),
        ('quantity("12x").isInteger()', None),
        ('quantity(node.labels["x"]).isGreaterThan(pod.requests["cpu"])', True),
        ('quantity(node.labels["x"]) == quantity("12")', True),
        ("node.zone in ['a', \"b\"]", True),
        (r'"a\n\u0041\x41" == "a\nAA"', True),
        (r'r"a\n" == "a\\n"', True),
        ('["cpu", "gpu"].exists_one(r, pod.requests[r].isInteger())', None),
        ('["memory", "cpu"].exists_one(r, pod.requests[r].isInteger())', True),
        ('["requests.cpu"].exists(r, "cpu" in pod.requests)', True),
        ('["x"].exists(key, node.labels["" + key] == "12")', True),
        ("9223372036854775807 + 1 > 0", None),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("1.0 / 0.0 > 1e300", True),
        ("0.0 / 0.0 == 0.0", None),
    ],
)
def test_quantities_and_edges_of_arithmetic(text: str, value: bool | None):
    pod = PodInfo("default", "web", requests={"cpu": 500_000_000, "memory": (2 << 30) * 10**9})
    node = ("a", {"x": "12"}, {}, True)
    result = split_value(compile_rule(text), node, pod)
    assert math.isnan(result) if value is None else result == float(value)


def test_an_int_that_no_float_can_be_is_unknown_where_it_is_joined():
    assert math.isnan(as_number(compile_rule("pod.priority").kind, 2**53 + 1))


def test_what_both_sides_of_an_or_need_is_one_part():
    program = compile_rule("node.hardware.x < 1.0 && pod.priority > 0 || node.hardware.x < 1.0 && pod.name == 'a'")
    assert [part.text for part in program.parts].count('(node.hardware["x"] < 1.0)') == 1
