"""What the rules of a policy are understood as: the expression with macros expanded, and where it is split."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from leadsman.decision.policy import Policy, digest
from leadsman.decision.rule_schema import compile_rule


class RuleDescription(Struct, frozen=True):
    """kind: filter or score. position: in the policy file. hash: tells it from what it was before and elsewhere.
    parts: what is computed alone → the expressions of it."""

    kind: str
    name: str
    position: str
    hash: str
    expression: str
    parts: Mapping[str, Sequence[str]]


def describe_rules(policy: Policy) -> Iterator[RuleDescription]:
    """Filters first, each in the policy's order."""
    for kind, rules in (("filter", policy.rules.filters), ("score", policy.rules.scores)):
        for number, rule in enumerate(rules):
            program, parts = compile_rule(rule.expression), dict[str, list[str]]()
            for part in program.parts:
                parts.setdefault(part.scope, []).append(part.text)
            position = f"$.rules.{kind}s[{number}]"
            yield RuleDescription(kind, rule.name, position, digest(rule), program.text, parts)
