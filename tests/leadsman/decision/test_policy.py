"""A policy is read whole, or refused with the place, what stands there and what is allowed."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.policy import Policy, PolicyError, parse
from leadsman.decision.yaml_document import MAX_CHARACTERS

EXAMPLE = Path(__file__).parents[3] / "examples" / "policy.yaml"


def test_the_example_is_the_defaults() -> None:
    text = EXAMPLE.read_text()
    assert parse(text) == Policy()
    assert fields(yaml.safe_load(text)) == fields(msgspec.to_builtins(Policy()))


def fields(section: Any) -> Any:
    return {name: fields(value) for name, value in section.items()} if isinstance(section, dict) else ...


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: {pressure: {weights: {cpu: -1}}}", "$.scores.pressure.weights.cpu: got -1, allowed a number from "),
        ("scores: {nearest: {weight: .nan}}", "$.scores.nearest.weight: got nan, allowed a number from 0 to 100"),
        ("scores: {nearest: {weight: yes}}", "$.scores.nearest.weight: got True, allowed a number from 0 to 100"),
        ("scores: {gpu: 1}", "$.scores.gpu: unknown field, allowed the fields nearest, cloud, pressure"),
        ("delay: {statistic: p99}", "$.delay.statistic: got 'p99', allowed p50, p95, min"),
        ("delay:", "$.delay: got nothing, allowed the fields statistic, estimate"),
        ("scores: {nearest: {weight: 1:30}}", "$.scores.nearest.weight: got '1:30', allowed a number from 0 to 100"),
        ("", "$: the file is empty; write {} to choose every default"),
        (
            "scores: {pressure: {temperature_celsius: {low: 90, high: 10}}}",
            "$.scores.pressure.temperature_celsius: low 90 must be below high 10",
        ),
        ("delay: [", "$: line 1, column 9: "),
        ("delay: {}\ndelay: {}", "$: line 2, column 1: got 'delay' twice, allowed once"),
        ("a: &x {}\nb: *x", "$: line 2, column 4: got the alias *x"),
        ("---\n---\n", "$: line 2, column 1: but found another document"),
        ("x: !!python/object/apply:os.system [ls]", "$: line 1, column 4: got the tag tag:yaml.org,2002:python/object"),
        ("\x00", "$: unacceptable character"),
        ("initial_layers: a", "$.initial_layers: expected array, got str"),
        ("initial_layers: [5, a]", "$.initial_layers[1]: got 'a', allowed a number from "),
        # What would exhaust memory or stack.
        ("[" * 10_000, "nesting deeper than 20"),
        ("a:\n" + "".join(" " * depth + "a:\n" for depth in range(1, 300)), "nesting deeper than 20"),
        ("#" * (MAX_CHARACTERS + 1), "got 65,537 characters, allowed 65,536"),
        ("a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]", "alias *a"),
        ("scores: " + "9" * 5_000, "digits"),
    ],
)
def test_an_error_names_the_place_the_value_and_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert said in str(caught.value)


@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_a_policy_error(text: str) -> None:
    with suppress(PolicyError):
        assert isinstance(parse(text), Policy)
