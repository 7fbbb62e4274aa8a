"""What the policies of an evaluation do, as data and as text."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from decision import table
from decision.decide import judge, rank
from decision.remedies import Limits, Memory, plan
from decision.telemetry import link, quantity, readings, rules
from decision.telemetry.policy import TasPolicy
from leadsman.evaluation.files import Given

UNLIMITED = Limits(most_marked_ratio=1.0, marks_per_second=float("inf"), hold_seconds=0.0, least_fresh_ratio=0.0)
"""All that the policies want, at once; the controller goes there in steps. Its memory's budget is opened as well."""


class Fault(Struct, frozen=True):
    policy: str
    file: str
    field: str
    message: str
    refused: bool


class Violation(Struct, frozen=True):
    """value: the metric's, as a decimal number. strategy_violated: under the strategy's logical operator."""

    policy: str
    strategy: str
    rule: str
    node: str
    value: str
    strategy_violated: bool


class Labelled(Struct, frozen=True):
    """One label that would be set (value) or removed (None)."""

    node: str
    label: str
    value: str | None
    policy: str
    reason: str


class Answer(Struct, frozen=True):
    """What the extender answers. policy: the pod's, "": it names none; missing: it names one that is not there."""

    pod: str
    policy: str
    missing: bool
    kept: Sequence[str]
    refused: Mapping[str, str]
    scores: Mapping[str, int]
    neutral: str


class Report(Struct, frozen=True):
    """unmeasured: metrics that a policy names and the file has not. withheld: labels that stay as they are, and why."""

    problems: Sequence[Fault]
    violations: Sequence[Violation]
    unmeasured: Sequence[str]
    labels: Sequence[Labelled]
    withheld: Sequence[str]
    answer: Answer | None


def of(given: Given) -> Report:
    used = given.policies.used
    metrics = sorted(metric for metric in given.policies.metrics if not readings.reporting(metric, given.facts))
    made = plan(given.nodes, given.facts, Memory(marks=float(1 + len(given.nodes) * (1 + len(used)))), UNLIMITED)
    labels = [Labelled(a.node, a.label, a.value, str(a.policy), a.reason) for a in made.actions]
    held = [f"{each.action.node}: {each.action.label}: {each.why}" for each in made.withheld]
    violations = [each for _, policy in sorted(used.items()) for each in _violations(policy, given)]
    return Report(list(_faults(given)), violations, metrics, labels, [*held, *made.stopped], _answer(given))


def _faults(given: Given) -> Iterator[Fault]:
    for key, refused in sorted(given.policies.refused.items()):
        yield Fault(str(key), given.where[key], refused.problem.path, refused.problem.text, refused=True)
    for key, policy in sorted(given.policies.used.items()):
        for problem in policy.problems:
            yield Fault(str(key), given.where[key], problem.path, problem.text, refused=False)


def _violations(policy: TasPolicy, given: Given) -> Iterator[Violation]:
    for name, strategy in policy.strategies.items():
        if name == "scheduleonmetric":
            continue
        columns = readings.of_rules(strategy.rules, policy, given.facts)
        violated = rules.violated_by(strategy, columns)
        for rule, column in zip(strategy.rules, columns, strict=True):
            for node in sorted(rules.violating(rule, column)):
                value = quantity.text(column.values[node])
                yield Violation(str(policy.key), name, str(rule), node, value, node in violated)


def _answer(given: Given) -> Answer | None:
    if given.asked is None:
        return None
    pod, names = given.asked.pod, given.asked.names
    judged = judge(pod, names, given.facts)
    ranked = rank(pod, judged.kept, given.facts)
    named = link.named(pod)
    return Answer(
        f"{pod.namespace}/{pod.name}",
        str(named) if named else "",
        link.missing(pod, given.facts),
        judged.kept,
        {node: refusal.reason for node, refusal in judged.refused.items()},
        ranked.scores,
        ranked.neutral,
    )


def text(report: Report) -> str:
    parts = (_problems(report), _violated(report), _labelled(report), _answered(report.answer))
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _problems(report: Report) -> list[str]:
    lines = [
        f"{'refused' if p.refused else 'problem'}: {p.file}: {p.policy}: {p.field}: {p.message}"
        for p in report.problems
    ]
    return [*lines, *(f"not in the metrics: {metric}" for metric in report.unmeasured)]


def _violated(report: Report) -> list[str]:
    if not report.violations:
        return ["no rule is violated"]
    rows = [
        [v.policy, v.strategy, v.rule, v.node, v.value, "yes" if v.strategy_violated else "no"]
        for v in report.violations
    ]
    return table.aligned([["POLICY", "STRATEGY", "RULE", "NODE", "VALUE", "VIOLATED"], *rows])


def _labelled(report: Report) -> list[str]:
    rows = [
        [a.node, f"{a.label}={a.value}" if a.value is not None else f"{a.label}-", a.policy, a.reason]
        for a in report.labels
    ]
    lines = table.aligned([["NODE", "LABEL", "POLICY", "REASON"], *rows]) if rows else ["no label changes"]
    return [*lines, *(f"not touched: {each}" for each in report.withheld)]


def _answered(answer: Answer | None) -> list[str]:
    if answer is None:
        return []
    linked = f"policy {answer.policy}{', which is missing' * answer.missing}" if answer.policy else "no policy"
    head = f"pod {answer.pod}, {linked}" + (f": all alike: {answer.neutral}" if answer.neutral else "")
    best = sorted(answer.scores, key=lambda node: -answer.scores[node])
    rows = [[node, "kept", str(answer.scores[node]), ""] for node in best]
    rows += [[node, "refused", "-", reason] for node, reason in answer.refused.items()]
    return [head, *table.aligned([["NODE", "VERDICT", "SCORE", "REASON"], *rows])]
