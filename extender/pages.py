"""Renders the pages /explain and /state, as JSON or text."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from extender.body_limits import RequestRefused
from extender.journal import Journal, JournalEntry
from extender.metrics import state_age_seconds
from leadsman.decision import explain, explain_text
from leadsman.published.backups import PodBackup
from leadsman.runtime.text_table import align_columns
from leadsman.sources.input_sources import DelayStatus, NodeGroups, NoDelayStatus, NodeNameGroups
from leadsman.state.snapshot import NodeState, Snapshot

_MAX_LISTED = 20

_NO_DECISION = (
    "another replica may keep it; a pod that was bound while no extender answered has none, and `leadsman controller`"
    " writes the Event BoundUnchecked on one that misses its bound"
)
_NO_DELAYS = NoDelayStatus()


def find_entry(journal: Journal, pod: str) -> JournalEntry | None:
    """The journal's entry for `pod`, namespace/name or a name in default. RequestRefused when no pod is named."""
    namespace, slash, name = pod.partition("/")
    if not pod:
        raise RequestRefused(400, f"name the pod with ?pod=namespace/name\n{_kept_decisions(journal)}")
    return journal.get(namespace, name) if slash else journal.get("default", pod)


def no_decision_text(journal: Journal, pod: str) -> str:
    """Why /explain has no decision on the pod."""
    return "\n".join([f"this replica keeps no decision on pod {pod!r}", _kept_decisions(journal), _NO_DECISION])


def _kept_decisions(journal: Journal) -> str:
    if not len(journal):
        return "this replica keeps no decision yet: kube-scheduler has not called it"
    pods = [f"  {entry.pod.namespace}/{entry.pod.name}" for entry in journal.newest(_MAX_LISTED)]
    return "\n".join([f"the newest of the {len(journal)} decisions that it keeps:", *pods])


def render_explain(
    entry: JournalEntry,
    now: float,
    as_json: bool,
    groups: NodeGroups | None = None,
    backup: PodBackup | None = None,
) -> bytes:
    """The page /explain of one decision; some 10 ms at 5,000 nodes.

    now: monotonic seconds. groups: of nodes near each other. backup: the pod's. Both as they are now, not when it was
    decided.
    """
    inputs = entry.score_inputs or entry.filter_inputs
    assert inputs
    explanation = explain.explain(entry.decision, inputs, entry.filter_inputs)
    ago = now - entry.decided_at
    passed = groups.among(entry.decision.kept) if groups else {}
    if as_json:
        return msgspec.json.encode(_ExplainPage(ago, explanation, passed, backup))
    head = f"decided {ago:.1f} s ago, policy {explanation.policy}\n{explain_text.format_explanation(explanation)}"
    backup_line = [f"backup: {backup}", ""] if backup else []
    return "\n".join([head, *backup_line, *_group_lines("nodes that passed", passed)]).encode()


class KeptDecision(Struct):
    """A line of /decisions. best: the node with the highest score, the first of equals; "": none was scored.

    replica: the name of the extender that keeps it.
    """

    namespace: str
    name: str
    decided_seconds_ago: float
    passed: int
    refused: int
    best: str
    neutral: str
    replica: str


def render_decisions(decisions: Sequence[KeptDecision], as_json: bool) -> bytes:
    """The page /decisions: a line a decision."""
    if as_json:
        return msgspec.json.encode(decisions)
    rows = [
        [f"{d.namespace}/{d.name}", f"{d.decided_seconds_ago:.0f}s", str(d.passed), str(d.refused), d.best or "-"]
        for d in decisions
    ]
    return "\n".join([*align_columns([["POD", "AGE", "PASSED", "REFUSED", "BEST"], *rows]), ""]).encode()


def kept_decision(entry: JournalEntry, now: float, replica: str) -> KeptDecision:
    """now: monotonic seconds."""
    decision = entry.decision
    best = max(decision.scores, key=lambda node: decision.scores[node], default="")
    return KeptDecision(
        decision.pod.namespace,
        decision.pod.name,
        now - entry.decided_at,
        len(decision.kept),
        len(decision.refused),
        best,
        decision.neutral,
        replica,
    )


class _ExplainPage(Struct):
    """node_groups: layer, as "5 ms" → groups of the nodes that passed. backup: None: nothing is known of it."""

    decided_seconds_ago: float
    explanation: explain.Explanation
    node_groups: Mapping[str, NodeNameGroups] = {}
    backup: PodBackup | None = None


def _group_lines(subject: str, groups_by_layer: Mapping[str, NodeNameGroups]) -> list[str]:
    """A line a layer. The first groups only, as there may be thousands."""
    lines = []
    for layer, groups in groups_by_layer.items():
        listed = [", ".join(group[:_MAX_LISTED]) + ", …" * (len(group) > _MAX_LISTED) for group in groups[:_MAX_LISTED]]
        more = [f"{len(groups) - _MAX_LISTED} more"] if len(groups) > _MAX_LISTED else []
        lines.append(f"{subject} within {layer}: {' | '.join([*listed, *more]) or 'no two'}")
    return [*lines, ""] if lines else []


def render_state(
    snapshot: Snapshot,
    now: float,
    policy_problem: str,
    as_json: bool,
    delays: DelayStatus = _NO_DELAYS,
    tls_problem: str = "",
) -> bytes:
    """The page /state. now: monotonic seconds. policy_problem: why the policy file is not in use; "" when it is.

    tls_problem: the same of the certificate files.
    """
    page = _state_page(snapshot, now, policy_problem, delays, tls_problem)
    return msgspec.json.encode(page) if as_json else _text(page)


class _Node(Struct):
    freshness: str
    age_seconds: float | None
    address: str | None
    zone: str
    peers_p50_ms: Mapping[str, float | None]
    hardware: Mapping[str, float]


class _StatePage(Struct):
    cluster: str
    revision: int
    age_seconds: float | None
    policy_problem: str
    problems: Mapping[str, str]
    nodes: Mapping[str, _Node]
    delay_problems: Mapping[str, str]
    node_groups: Mapping[str, NodeNameGroups]
    implausible_reports: Mapping[str, Sequence[str]]
    contradicted_nodes: Mapping[str, str]
    tls_problem: str = ""


def _state_page(
    snapshot: Snapshot, now: float, policy_problem: str, delays: DelayStatus, tls_problem: str
) -> _StatePage:
    nodes = {name: _node(node, now) for name, node in sorted(snapshot.nodes.items())}
    age = state_age_seconds(snapshot, now)
    groups = delays.groups.named() if delays.groups else {}
    problems = dict(snapshot.problems)
    return _StatePage(
        snapshot.cluster_id,
        snapshot.revision,
        age,
        policy_problem,
        problems,
        nodes,
        dict(delays.problems),
        groups,
        delays.implausible,
        delays.contradicted,
        tls_problem,
    )


def _node(node: NodeState, now: float) -> _Node:
    peers = node.latency.peers if node.latency else {}
    return _Node(
        node.freshness(now).value,
        node.age_seconds(now),
        node.identity.address if node.identity else None,
        node.identity.zone if node.identity else "",
        {peer: window.p50_ms for peer, window in peers.items()},
        node.hardware.values if node.hardware else {},
    )


def _text(state: _StatePage) -> bytes:
    head = f"revision {state.revision} of cluster {state.cluster or '(none)'}, {len(state.nodes)} nodes"
    rows = [f"{name}  {n.freshness}  {_age(n.age_seconds)}  {_peers(n)}" for name, n in state.nodes.items()]
    problems = [f"problem: {key}: {why}" for key, why in state.problems.items()]
    policy = [f"problem: {each}" for each in (state.policy_problem, state.tls_problem) if each]
    problems += [f"problem: {source}: {why}" for source, why in state.delay_problems.items()]
    problems += [f"problem: {node}: {why}" for node, why in sorted(state.contradicted_nodes.items())]
    return "\n".join([head, *policy, *problems, *rows, "", *_group_lines("nodes", state.node_groups)]).encode()


def _age(seconds: float | None) -> str:
    return "age unknown" if seconds is None else f"{seconds:.1f} s"


def _peers(node: _Node) -> str:
    measured = (f"{peer} {p50:.3g} ms" for peer, p50 in node.peers_p50_ms.items() if p50 is not None)
    return ", ".join(measured) or "no round trips"
