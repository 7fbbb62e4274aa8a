"""What the rules of a policy are understood as: the expression with macros expanded, and where it is split."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from leadsman.decision.policy import Policy
from leadsman.decision.rule_schema import compile_rule


class RuleDescription(Struct, frozen=True):
    """kind: filter or score. parts: what is computed alone → the expressions of it."""

    kind: str
    name: str
    expression: str
    parts: Mapping[str, Sequence[str]]


def describe_rules(policy: Policy) -> Iterator[RuleDescription]:
    """Filters first, each in the policy's order."""
    rules = [("filter", each.name, each.expression) for each in policy.rules.filters]
    rules += [("score", each.name, each.expression) for each in policy.rules.scores]
    for kind, name, text in rules:
        program, parts = compile_rule(text), dict[str, list[str]]()
        for part in program.parts:
            parts.setdefault(part.scope, []).append(part.text)
        yield RuleDescription(kind, name, program.text, parts)
