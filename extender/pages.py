"""What people read: /explain and /state, as JSON or text."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from extender.body_limits import RequestRefused
from extender.journal import Journal, JournalEntry
from extender.metrics import state_age_seconds
from leadsman.decision import explain, explain_text
from leadsman.sources.input_sources import DelayStatus, NodeGroups, NoDelayStatus, NodeNameGroups
from leadsman.state.snapshot import NodeState, Snapshot

_MOST_LISTED = 20
_NOTHING = NoDelayStatus()


def find_entry(journal: Journal, pod: str | None) -> JournalEntry:
    """The kept decision on `pod`, namespace/name or a name in default. Refused when there is none."""
    namespace, slash, name = (pod or "").partition("/")
    if not pod:
        raise RequestRefused(400, f"?pod=namespace/name is missing\n{_kept_decisions(journal)}")
    found = journal.get(namespace, name) if slash else journal.get("default", pod)
    if found is None:
        raise RequestRefused(404, f"no decision on pod {pod!r} is kept\n{_kept_decisions(journal)}")
    return found


def _kept_decisions(journal: Journal) -> str:
    if not len(journal):
        return "no decision is kept yet: kube-scheduler has not asked this replica"
    pods = [f"  {kept.pod.namespace}/{kept.pod.name}" for kept in journal.newest(_MOST_LISTED)]
    return "\n".join([f"kept are the last decisions of this replica, {len(journal)} now; the newest are", *pods])


def render_explain(kept: JournalEntry, now: float, as_json: bool, groups: NodeGroups | None = None) -> bytes:
    """Some 10 ms at 5,000 nodes. groups: as they are now, not when it was decided."""
    facts = kept.score_inputs or kept.filter_inputs
    assert facts
    explanation = explain.explain(kept.decision, facts, kept.filter_inputs)
    ago = now - kept.decided_at
    among = groups.among(kept.decision.kept) if groups else {}
    if as_json:
        return msgspec.json.encode(_ExplainPage(ago, explanation, among))
    head = f"decided {ago:.1f} s ago, policy {explanation.policy}\n{explain_text.format_explanation(explanation)}"
    return "\n".join([head, *_group_lines("nodes that passed", among)]).encode()


class _ExplainPage(Struct):
    """node_groups: layer, as "5 ms" → groups that the nodes that passed are in."""

    decided_seconds_ago: float
    explanation: explain.Explanation
    node_groups: Mapping[str, NodeNameGroups] = {}


def _group_lines(whose: str, groups: Mapping[str, NodeNameGroups]) -> list[str]:
    """A line a layer. The first groups only, as there may be thousands."""
    lines = []
    for layer, found in groups.items():
        named = [
            ", ".join(group[:_MOST_LISTED]) + ", …" * (len(group) > _MOST_LISTED) for group in found[:_MOST_LISTED]
        ]
        more = [f"{len(found) - _MOST_LISTED} more"] if len(found) > _MOST_LISTED else []
        lines.append(f"{whose} within {layer}: {' | '.join([*named, *more]) or 'no two'}")
    return [*lines, ""] if lines else []


def render_state(
    snapshot: Snapshot, now: float, policy_problem: str, as_json: bool, beside: DelayStatus = _NOTHING
) -> bytes:
    shown = _state_page(snapshot, now, policy_problem, beside)
    return msgspec.json.encode(shown) if as_json else _text(shown)


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


def _state_page(snapshot: Snapshot, now: float, policy_problem: str, beside: DelayStatus) -> _StatePage:
    nodes = {name: _node(node, now) for name, node in sorted(snapshot.nodes.items())}
    age = state_age_seconds(snapshot, now)
    groups = beside.groups.named() if beside.groups else {}
    problems = dict(snapshot.problems)
    return _StatePage(
        snapshot.cluster_id, snapshot.revision, age, policy_problem, problems, nodes, dict(beside.problems), groups
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
    policy = [f"problem: {state.policy_problem}"] if state.policy_problem else []
    problems += [f"problem: {source}: {why}" for source, why in state.delay_problems.items()]
    return "\n".join([head, *policy, *problems, *rows, "", *_group_lines("nodes", state.node_groups)]).encode()


def _age(seconds: float | None) -> str:
    return "age unknown" if seconds is None else f"{seconds:.1f} s"


def _peers(node: _Node) -> str:
    known = (f"{peer} {p50:.3g} ms" for peer, p50 in node.peers_p50_ms.items() if p50 is not None)
    return ", ".join(known) or "no peer answers"
