"""What cannot be used as an expression is refused with its place, and with what is allowed."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.cel.macros import MAX_COST
from leadsman.decision.cel.syntax import MAX_CHARACTERS, MAX_DEPTH, MAX_TOKENS, BadExpression
from leadsman.decision.rule_schema import compile_rule


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1, column 1: got the end, allowed a value"),
        ("node.fresh &&", "line 1, column 14: got the end, allowed a value"),
        ("node.fresh\n  && node.hot", "line 2, column 10: node has no field 'hot'; it has name, labels, zone"),
        ('node.labels["a"', "line 1, column 16: got the end, allowed ']'"),
        ("node.labels[pod.name]", "line 1, column 13: got 'pod', allowed a key as text"),
        ("node.labels", "got node.labels, which is a map"),
        ("node.zone.length", "got a field of node.zone, which is a string"),
        ("node.labels.a.b", "got a field of a value of node.labels"),
        ('"a".b', "got a field of a value, allowed fields of node, pod"),
        ("object.spec", "got object, allowed node, pod"),
        ("node", "got node, allowed node.name"),
        ("1 + 2.0 > 3.0", "line 1, column 3: + got (int, double), allowed (int, int) or (double, double)"),
        ("node.zone && true", "got string beside &&, allowed bool"),
        ("true ? 1 : 2.0", "?: chooses between int and double"),
        ('node.zone.matches("a(b")', "line 1, column 19: the pattern cannot be used: missing ): a(b"),
        (
            "node.zone.matches(node.rack)",
            "line 1, column 10: matches() takes a string and a pattern that is written out",
        ),
        ("pod.priority.matches('a')", "matches() takes a string and a pattern that is written out"),
        ("node.zone.matches()", "matches() takes a string and a pattern that is written out"),
        ("node.labels.exists(k, k == 'a')", "line 1, column 1: got no list, allowed a list that is written out"),
        ("[1].exists(1, true)", "line 1, column 4: exists() takes a variable and an expression of it"),
        ("[1, 2].all(x, x + 1)", "line 1, column 17: got int beside &&, allowed bool"),
        ("[1, 2].all(x, x + 1.0 > x)", "line 1, column 17: + got (int, double)"),
        ("['a'].exists(x, node.labels[x + pod.name] == x)", "line 1, column 29: got 'x', allowed a key as text"),
        ("[1, 2].map(x, x + 1)", "line 1, column 7: got a list of map(), allowed before .exists()"),
        ("[1, 2].exists(x, y > x)", "line 1, column 18: got y, allowed node.name"),
        ("[1].map(x, x + x)" + ".map(x, x + x)" * 12 + ".exists(x, x > 1)", f"got more than {MAX_COST} operations"),
        (
            "[1].exists(a, [1, 2, 3, 4].exists(b, [1, 2, 3, 4].exists(c, [1, 2, 3, 4].exists(d, [1, 2, 3, 4].exists(e, "
            "a + b + c + d + e == 5)))))",
            f"got more than {MAX_COST} operations",
        ),
        ("node.zone.startsWith(pod.name)", "startsWith joins the pod with what the node reports; only && || ! ?:"),
        ("node.zone < pod.name", "< joins the pod with what the node reports"),
        ("[1, 2]", "got a list, allowed after `in` and before a macro"),
        ("1 in [1, 'a']", "got a list of other things, allowed literals of int"),
        ("1 in 2", "`in` takes a key and a map"),
        ("has(node.zone)", "has() takes a key of a map"),
        (r'"\q" == "a"', r"line 1, column 2: got \q, allowed \n"),
        (r'"\ud800" == "a"', "got half of a surrogate pair"),
        ("9223372036854775808 > 0", "allowed integers up to 9223372036854775807"),
        ("1u == 1u", "got 'u', allowed an operator or the end"),
        ("node.fresh @", "line 1, column 12: got '@', which begins nothing that is known"),
        ("true" + " || true" * MAX_TOKENS, "got 2,052 characters, allowed 1,024"),
        ("!" * (MAX_DEPTH + 1) + "true", f"got a nesting deeper than {MAX_DEPTH}"),
        ("(" * (MAX_DEPTH + 1), f"got a nesting deeper than {MAX_DEPTH}"),
        ("1+" * MAX_TOKENS + "1", f"got more than {MAX_TOKENS} words and signs"),
    ],
)
def test_the_error_says_where_and_what_is_allowed(text: str, error: str):
    with pytest.raises(BadExpression) as caught:
        compile_rule(text)
    assert error in str(caught.value)


WORDS: tuple[str, ...] = (
    "node",
    "pod",
    "labels",
    "hardware",
    "fresh",
    "requests",
    "true",
    "in",
    "has",
    "size",
    "quantity",
    "int",
)
WORDS += ("x", "exists", "map", "filter", "[1, 2]", "matches")
SIGNS = ("&&", "||", "!", "?", ":", "(", ")", "[", "]", ".", ",", "==", "<", "+", "-", "*", "/", "%", "1", "1.5", '"x"')
FRAGMENTS = st.sampled_from([*WORDS, *SIGNS])


@given(st.text(max_size=60) | st.lists(FRAGMENTS, max_size=40).map(" ".join))
def test_any_text_is_a_program_or_a_bad_expression(text: str):
    with suppress(BadExpression):
        assert compile_rule(text).parts is not None


def test_the_longest_chain_of_operators_compiles():
    text = "&&".join(["true"] * (MAX_TOKENS // 2))
    assert len(text) <= MAX_CHARACTERS
    compile_rule(text)
