"""Serves rewards of pod types on nodes, and the policies that are in use or refused."""

from collections.abc import Iterator, Mapping, Sequence

from aiohttp import web
from msgspec import Struct

from extender.api.live import LiveState
from extender.api.requests import PAGED, SEARCHED, ListPage, ListQuery, Route
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import digest
from leadsman.decision.rewards import rewards_score
from leadsman.decision.rewards.rewards_score import faded_trials
from leadsman.rewards.posterior import NodePosterior
from leadsman.state.snapshot import AgedReward


class RewardCell(Struct, frozen=True):
    """Says how pods of one type fared on one node.

    value: 0..1, what the score uses.
    reward_ratio: expected success, between lower_ratio and upper_ratio.
    blame_ratio: probability that the node is at fault.
    typical_ratio: success on the other nodes.
    samples: weight of the evidence.
    healthy, failed: trials, faded to now.
    kuberl: kubeRL's reward.
    incidents: cause → how many.
    age_seconds: since its last change.
    """

    value: float
    reward_ratio: float
    lower_ratio: float
    upper_ratio: float
    blame_ratio: float
    typical_ratio: float
    samples: float
    healthy: float
    failed: float
    kuberl: float
    incidents: Mapping[str, int]
    last_cause: str
    age_seconds: float


class RewardMatrix(Struct, frozen=True):
    """Rewards of pod types on nodes; the nodes with the lowest values, or else the most failures, come first.

    rule: the policy's reward rule.
    cells: a row for each pod type, with the nodes of this page; null: no evidence.
    """

    rule: str
    pod_types: Sequence[str]
    nodes: ListPage[str]
    cells: Sequence[Sequence[RewardCell | None]]


class PolicyRow(Struct, frozen=True):
    """A policy in use or refused. hash: of its content. source: file or object. problems: why it was not accepted."""

    name: str
    kind: str
    hash: str
    source: str
    accepted: bool
    problems: Sequence[str]


POLICY_FILE, TELEMETRY_POLICY = "policy", "TASPolicy"


def reward_matrix(inputs: DecisionInputs, pod_type: str, node: str, search: str, query: ListQuery) -> RewardMatrix:
    """Builds the matrix of one pod type and node, or of all (""). search: a text in a type's or its node's name."""
    text = search.lower()
    found = {
        (of_type, of_node): cell
        for of_type, of_node, cell in _reward_cells(inputs, pod_type, node)
        if not text or text in of_type.lower() or text in of_node.lower()
    }
    pod_types = sorted({of_type for of_type, _ in found})
    worst_first = sorted(found, key=lambda key: (found[key].value, -found[key].failed, key[1]))
    page = query.page(list(dict.fromkeys(of_node for _, of_node in worst_first)))
    cells = [[found.get((of_type, of_node)) for of_node in page.items] for of_type in pod_types]
    return RewardMatrix(inputs.policy.scores.rewards.rule.value, pod_types, page, cells)


def _reward_cells(inputs: DecisionInputs, pod_type: str, node: str) -> Iterator[tuple[str, str, RewardCell]]:
    """Yields pod type, node and what is known of the two; of this type or node alone, "" for all."""
    for name in [pod_type] if pod_type else sorted(inputs.snapshot.rewards):
        assessment = rewards_score.assess_type(name, inputs)
        if assessment is None:
            continue
        nodes = inputs.snapshot.rewards.get(name, {})
        for each in [node] if node in nodes else [] if node else nodes:
            value = assessment.values.get(each, 1.0)
            yield name, each, _reward_cell(nodes[each], assessment.posteriors[each], value, inputs.now)


def _reward_cell(aged: AgedReward, posterior: NodePosterior, value: float, now: float) -> RewardCell:
    trials = faded_trials(aged, now)
    return RewardCell(
        value,
        posterior.expected_ratio,
        posterior.lower_ratio,
        posterior.upper_ratio,
        posterior.blame_ratio,
        posterior.typical_ratio,
        posterior.samples,
        trials.healthy,
        trials.failed,
        aged.reward.kuberl,
        aged.reward.incidents,
        aged.reward.last_cause,
        aged.age_seconds(now),
    )


def policy_rows(inputs: DecisionInputs, policy_path: str, policy_problem: str) -> Sequence[PolicyRow]:
    """Lists the policy file and all telemetry policies.

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


async def rewards(live: LiveState, request: web.Request) -> RewardMatrix:
    inputs, page = live.sources.inputs.current_inputs(), ListQuery(request.query)
    pod_type, node, search = (request.query.get(name, "") for name in ("type", "node", "search"))
    return await live.on_worker(lambda: reward_matrix(inputs, pod_type, node, search, page))


async def policies(live: LiveState, request: web.Request) -> ListPage[PolicyRow]:
    sources, page = live.sources, ListQuery(request.query)
    problem = sources.inputs.policy.problem.text
    return page.page(policy_rows(sources.inputs.current_inputs(), sources.policy_path, problem))


ROUTES = (
    Route("/rewards", rewards, RewardMatrix, "Pod types by nodes.", ("type", "node", *SEARCHED)),
    Route("/policies", policies, ListPage[PolicyRow], "Policies, and what is wrong with them.", PAGED),
)
