"""Which labels the rules of a policy read: only those are followed, and only those are recorded."""

from functools import lru_cache

from msgspec import Struct

from leadsman.decision.policy import Policy
from leadsman.decision.rule_schema import compile_rule
from leadsman.kube.bounded_metadata import BoundedLabels

LabelReads = dict[str, str]
"""Key → a rule that reads it."""


class RuleReads(Struct, frozen=True):
    node_labels: LabelReads
    pod_labels: LabelReads


@lru_cache(maxsize=8)
def rule_reads(policy: Policy) -> RuleReads:
    """The labels that the policy's rules read of nodes and of pods."""
    found: dict[tuple[str, ...], LabelReads] = {("node", "labels"): {}, ("pod", "labels"): {}}
    for rule in (*policy.rules.filters, *policy.rules.scores):
        for read in compile_rule(rule.expression).reads:
            if read.path[:2] in found:
                found[read.path[:2]][read.path[-1]] = rule.name
    return RuleReads(found["node", "labels"], found["pod", "labels"])


def missing_reads(policy: Policy, recorded_under: Policy) -> str:
    """Why `policy` cannot be judged on what was recorded: a label that a rule of it reads, a plugin; "" when it can."""
    if plugins := (*policy.plugins.filters, *policy.plugins.scores):
        return f"plugin {plugins[0].name} is not asked again: what it would say is not recorded"
    reads, recorded = rule_reads(policy), rule_reads(recorded_under)
    missing = [
        (f'node.labels["{key}"]', rule) for key, rule in reads.node_labels.items() if key not in recorded.node_labels
    ]
    missing += [
        (f'pod.labels["{key}"]', rule)
        for key, rule in reads.pod_labels.items()
        if key not in recorded.pod_labels and not BoundedLabels.is_read(key)
    ]
    if not missing:
        return ""
    (read, rule), *_ = missing
    return f"rule {rule} reads {read}, which is not recorded; record while the policy in use has a rule that reads it"
