"""Rewards and policies."""

from collections.abc import Sequence

from extender.api.contract.cluster import PolicyRow, RewardCell, RewardMatrix
from extender.api.parameters import ListQuery
from extender.rewards_page import reward_rows
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import digest

POLICY_FILE, TELEMETRY_POLICY = "policy", "TASPolicy"


def reward_matrix(inputs: DecisionInputs, search: str, query: ListQuery) -> RewardMatrix:
    """Nodes of the page by pod types whose name, or one of whose nodes, has the text; "" for all."""
    rows = list(reward_rows(inputs, "", ""))
    text = search.lower()
    selected = [row for row in rows if not text or text in row.type.lower() or text in row.node.lower()]
    pod_types = sorted({row.type for row in selected})
    worst_first = sorted(selected, key=lambda row: (row.value, -row.failed, row.node))
    page = query.page(list(dict.fromkeys(row.node for row in worst_first)))
    cells = {
        (row.type, row.node): RewardCell(
            round(row.value, 3),
            round(row.healthy + row.failed, 1),
            round(row.failed, 1),
            round(max(0.0, 1 - (row.upper_ratio - row.lower_ratio)), 3),
        )
        for row in selected
    }
    grid = [[cells.get((pod_type, node)) for node in page.items] for pod_type in pod_types]
    return RewardMatrix(pod_types, page, grid)


def policy_rows(inputs: DecisionInputs, policy_path: str, policy_problem: str) -> Sequence[PolicyRow]:
    """The policy file, and all telemetry policies.

    policy_path: "": the default policy. policy_problem: why the file as it is now is not in use; "" when it is.
    """
    problems = [policy_problem] if policy_problem else []
    source = policy_path or "default of this version"
    rows = [PolicyRow("policy", POLICY_FILE, digest(inputs.policy), source, not problems, problems)]
    policies = inputs.telemetry.policies
    for key in sorted({*policies.used, *policies.refused}):
        used, refused = policies.used.get(key), policies.refused.get(key)
        texts = [f"{refused.problem.path}: {refused.problem.text}"] if refused else []
        texts += [f"{problem.path}: {problem.text}" for problem in used.problems] if used else []
        name, generation = f"{key.namespace}/{key.name}", used.generation if used else 0
        rows.append(PolicyRow(name, TELEMETRY_POLICY, f"generation {generation}", name, not refused, texts))
    return rows
