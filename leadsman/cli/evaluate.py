"""`leadsman evaluate`: show what policies do, without a cluster, by the code of extender and controller.

Exit code: 0: every policy is good; 1: a telemetry policy is refused or has a problem, or with --fail-on-violation a
rule is violated; 2: a file cannot be read, or the extender's policy file cannot be used.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from leadsman.cli import evaluate_inputs
from leadsman.cli.evaluate_inputs import STANDARD_INPUT, EvaluationInputs
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, existing_folder
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.policy import digest
from leadsman.decision.telemetry import telemetry_plugins
from leadsman.decision.telemetry.taspolicy import TasPolicy
from leadsman.kube import quantity
from leadsman.planning.labels.label_plan import LabelLimits, LabelPlan, PlanMemory
from leadsman.planning.labels.label_planner import plan_labels
from leadsman.runtime import text_table
from leadsman.sources.policy_file import PolicyFile

EXIT_POLICIES_BAD, EXIT_GOOD = 1, 0


def options(add: Options) -> None:
    add.parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add.parser.add_argument("--fail-on-violation", action="store_true", help="exit with 1 also when a rule is violated")
    add.parser.add_argument(
        "--adopt", action="store_true", help="count the labels that the original left as ours, as the controller does"
    )
    add.argument("policy", "the extender's policy file: only say whether it can be used", None, existing_file)
    add.argument(
        "policies",
        "folder or file of TASPolicies, as kubectl takes them; - is standard input, also for the other files",
        None,
        file_or_folder,
        metavar="PATH",
    )
    add.argument(
        "metrics",
        'metric values as YAML or JSON, {METRIC: {NODE: "1500m"}}; an absent node has no value',
        None,
        input_file,
        metavar="FILE",
    )
    add.argument(
        "nodes",
        "output of `kubectl get nodes -o json`, or a list of names (default: the nodes that have metrics)",
        None,
        input_file,
        metavar="FILE",
    )
    add.argument(
        "request", "a request body that kube-scheduler sent to filter or prioritize", None, input_file, metavar="FILE"
    )


def file_or_folder(text: str) -> Path:
    return existing_folder(text) if Path(text).is_dir() else input_file(text)


def input_file(text: str) -> Path:
    return STANDARD_INPUT if text == str(STANDARD_INPUT) else existing_file(text)


def main(args: argparse.Namespace) -> int:
    """ValueError when a file cannot be read or used."""
    if args.policy is not None:
        sys.stdout.write(f"policy {digest(PolicyFile(args.policy).current)} can be used\n")
        return EXIT_GOOD
    if args.policies is None or args.metrics is None:
        raise ValueError("--policies and --metrics are both needed: the policies, and the values to try them on")
    files = (args.policies, args.metrics, args.nodes, args.request)
    if files.count(STANDARD_INPUT) > 1:
        raise ValueError("- stands for two files; standard input can be only one of them")
    found = evaluate(evaluate_inputs.read_inputs(*files), adopt=args.adopt)
    sys.stdout.write(_json(found) if args.json else render(found))
    failed = bool(found.problems) or (args.fail_on_violation and bool(found.violations))
    return EXIT_POLICIES_BAD if failed else EXIT_GOOD


def _json(found: "EvaluationReport") -> str:
    plain: Mapping[str, Any] = msgspec.to_builtins(found)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


UNLIMITED = LabelLimits(max_marked_ratio=1.0, marks_per_second=float("inf"), hold_seconds=0.0, min_fresh_ratio=0.0)
"""Every label change at once, where the controller makes them in steps. The mark budget in its memory is raised too."""


class ReportedProblem(Struct, frozen=True):
    """A fault of a policy. refused: the whole policy is not used because of it."""

    policy: str
    file: str
    field: str
    message: str
    refused: bool


class RuleViolation(Struct, frozen=True):
    """A node that violates a rule.

    value: the metric's value, as a decimal number.
    strategy_violated: whether the strategy's logical operator counts the node as violating.
    """

    policy: str
    strategy: str
    rule: str
    node: str
    value: str
    strategy_violated: bool


class LabelChange(Struct, frozen=True):
    """One label that would be set (value) or removed (None)."""

    node: str
    label: str
    value: str | None
    policy: str
    reason: str


class ExtenderAnswer(Struct, frozen=True):
    """What the extender answers.

    policy: the one that the pod names; "": none.
    missing: the named policy does not exist.
    policy_refused: the named policy exists and cannot be used.
    refused: node → reason.
    neutral: why all nodes score alike; "" when they do not.
    """

    pod: str
    policy: str
    missing: bool
    policy_refused: bool
    kept: Sequence[str]
    refused: Mapping[str, str]
    scores: Mapping[str, int]
    neutral: str


class EvaluationReport(Struct, frozen=True):
    """What the policies do.

    policies: how many were read, the refused ones among them.
    other_documents: how many documents of other kinds were skipped.
    unmeasured: metrics that a policy names and the file lacks.
    kept_by_hysteresis: labels that stay although their rule is no longer violated.
    withheld: labels that stay unchanged, and why.
    """

    policies: int
    other_documents: int
    problems: Sequence[ReportedProblem]
    violations: Sequence[RuleViolation]
    unmeasured: Sequence[str]
    labels: Sequence[LabelChange]
    kept_by_hysteresis: Sequence[str]
    withheld: Sequence[str]
    answer: ExtenderAnswer | None


def evaluate(given: EvaluationInputs, adopt: bool = False) -> EvaluationReport:
    """adopt: labels that the original left count as ours."""
    used, limits = given.policies.used, structs.replace(UNLIMITED, adopt=adopt)
    plan = _plan(given, limits)
    return EvaluationReport(
        policies=len(given.policy_files.sources),
        other_documents=given.policy_files.skipped,
        problems=list(_faults(given)),
        violations=[each for _, policy in sorted(used.items()) for each in _violations(policy, given)],
        unmeasured=sorted(
            metric
            for metric in given.policies.metrics
            if not telemetry_plugins.reporting_nodes(metric, given.decision_inputs)
        ),
        labels=[LabelChange(a.node, a.label, a.value, str(a.policy), a.reason) for a in plan.actions],
        kept_by_hysteresis=list(_kept_by_hysteresis(plan, _plan(given, structs.replace(limits, leave_ratio=1.0)))),
        withheld=[*(f"{each.action.node}: {each.action.label}: {each.why}" for each in plan.withheld), *plan.stopped],
        answer=_answer(given),
    )


def _plan(given: EvaluationInputs, limits: LabelLimits) -> LabelPlan:
    budget = float(1 + len(given.nodes) * (1 + len(given.policies.used)))
    return plan_labels(given.nodes, given.decision_inputs, PlanMemory(mark_budget=budget), limits)


def _kept_by_hysteresis(plan: LabelPlan, without: LabelPlan) -> Iterator[str]:
    """without: the plan that has no hysteresis; what it alone changes is kept by it."""
    changed = {(action.node, action.label) for action in plan.actions}
    for action in without.actions:
        if (action.node, action.label) not in changed:
            yield (
                f"{action.node}: {action.label}={action.before}: {action.reason}, but the value is not yet back by"
                f" {1 - UNLIMITED.leave_ratio:.0%} of the target"
            )


def _faults(given: EvaluationInputs) -> Iterator[ReportedProblem]:
    for key, refused in sorted(given.policies.refused.items()):
        yield ReportedProblem(
            str(key), given.policy_files.sources[key], refused.problem.path, refused.problem.text, refused=True
        )
    for key, policy in sorted(given.policies.used.items()):
        for problem in policy.problems:
            yield ReportedProblem(str(key), given.policy_files.sources[key], problem.path, problem.text, refused=False)


def _violations(policy: TasPolicy, given: EvaluationInputs) -> Iterator[RuleViolation]:
    for name, strategy in policy.strategies.items():
        if name == "scheduleonmetric":
            continue
        columns = telemetry_plugins.for_rules(strategy.rules, policy, given.decision_inputs)
        violated = telemetry_plugins.violations_by_node(strategy, columns)
        for rule, column in zip(strategy.rules, columns, strict=True):
            for node in sorted(telemetry_plugins.violating_nodes(rule, column)):
                value = quantity.format_quantity(column.values[node])
                yield RuleViolation(str(policy.key), name, str(rule), node, value, node in violated)


def _answer(given: EvaluationInputs) -> ExtenderAnswer | None:
    if given.extender_args is None:
        return None
    pod, names = given.extender_args.pod, given.extender_args.node_names
    judged = filter_nodes(pod, names, given.decision_inputs)
    ranked = score_nodes(pod, judged.kept, given.decision_inputs)
    named = telemetry_plugins.named_policy(pod)
    return ExtenderAnswer(
        f"{pod.namespace}/{pod.name}",
        str(named) if named else "",
        telemetry_plugins.is_policy_missing(pod, given.decision_inputs) and named not in given.policies.refused,
        named in given.policies.refused,
        judged.kept,
        {node: refusal.reason for node, refusal in judged.refused.items()},
        ranked.scores,
        ranked.neutral,
    )


def render(report: EvaluationReport) -> str:
    parts = (_policy_lines(report), _violation_lines(report), _label_changes(report), _answer_lines(report.answer))
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _policy_lines(report: EvaluationReport) -> list[str]:
    """How many policies there are, and what is wrong with them."""
    refused = sum(problem.refused for problem in report.problems)
    lines = [f"policies read: {report.policies}" + f", {refused} of them refused" * bool(refused)]
    if report.other_documents:
        lines.append(f"documents of other kinds, skipped: {report.other_documents}")
    lines += [
        f"{'refused' if p.refused else 'problem'}: {p.file}: {p.policy}: {p.field}: {p.message}"
        for p in report.problems
    ]
    return [*lines, *(f"not in the metrics: {metric}" for metric in report.unmeasured)]


def _violation_lines(report: EvaluationReport) -> list[str]:
    if not report.violations:
        return ["no rule is violated"]
    rows = [
        [v.policy, v.strategy, v.rule, v.node, v.value, "yes" if v.strategy_violated else "no"]
        for v in report.violations
    ]
    return text_table.align_columns([["POLICY", "STRATEGY", "RULE", "NODE", "VALUE", "VIOLATED"], *rows])


def _label_changes(report: EvaluationReport) -> list[str]:
    rows = [
        [a.node, f"{a.label}={a.value}" if a.value is not None else f"{a.label}-", a.policy, a.reason]
        for a in report.labels
    ]
    lines = text_table.align_columns([["NODE", "LABEL", "POLICY", "REASON"], *rows]) if rows else ["no label changes"]
    lines += [f"kept by hysteresis: {each}" for each in report.kept_by_hysteresis]
    return [*lines, *(f"unchanged: {each}" for each in report.withheld)]


def _answer_lines(answer: ExtenderAnswer | None) -> list[str]:
    if answer is None:
        return []
    state = ", which does not exist" if answer.missing else ", which is refused" if answer.policy_refused else ""
    linked = f"policy {answer.policy}{state}" if answer.policy else "no policy"
    head = f"pod {answer.pod}, {linked}" + (f": all nodes score alike: {answer.neutral}" if answer.neutral else "")
    best = sorted(answer.scores, key=lambda node: -answer.scores[node])
    rows = [[node, "kept", str(answer.scores[node]), ""] for node in best]
    rows += [[node, "refused", "-", reason] for node, reason in answer.refused.items()]
    return [head, *text_table.align_columns([["NODE", "VERDICT", "SCORE", "REASON"], *rows])]
