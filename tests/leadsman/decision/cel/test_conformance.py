"""The cases of CEL's own conformance suite that our language has: tests/data/cel/README.md."""

import json
from pathlib import Path

import pytest

from leadsman.decision.cel.checker import check
from leadsman.decision.cel.functions import Unknown, Value
from leadsman.decision.cel.macros import expand
from leadsman.decision.cel.program import evaluate
from leadsman.decision.cel.syntax import parse

CASES = json.loads((Path(__file__).parents[3] / "data/cel/conformance.json").read_text())


def value_of(text: str) -> Value:
    """None: unknown."""
    try:
        return evaluate(check(expand(parse(text), text), text, {}))(None)
    except Unknown:
        return None


@pytest.mark.parametrize("section", sorted({name.rpartition("/")[0] for name, _, _ in CASES}))
def test_a_section_of_the_suite_has_its_values(section: str):
    cases = [(text, value) for name, text, value in CASES if name.rpartition("/")[0] == section]
    assert [(text, value_of(text)) for text, _ in cases] == cases


def test_values_have_their_types():
    assert [type(value_of(text)) for _, text, _ in CASES] == [type(value) for _, _, value in CASES]
