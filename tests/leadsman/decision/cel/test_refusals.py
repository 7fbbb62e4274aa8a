"""What cannot be used as an expression is refused with its place, and with what is allowed."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ('node.zone.matches("a")', "got matches(), allowed .add()"),
        ("node.zone.startsWith(pod.name)", "startsWith joins the pod with what the node reports; only && || ! ?:"),
        ("node.zone < pod.name", "< joins the pod with what the node reports"),
        ("[1, 2]", "got a list, allowed only after `in`"),
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


WORDS = ("node", "pod", "labels", "hardware", "fresh", "requests", "true", "in", "has", "size", "quantity", "int")
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
