"""What people read: /explain and /state, as JSON or text."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from clusterstate.snapshot import NodeState, Snapshot
from decision import explain, explain_text
from extender.bodies import Refused
from extender.journal import Entry, Journal
from extender.metrics import age_seconds

_MOST_LISTED = 20


def entry(journal: Journal, pod: str | None) -> Entry:
    """The kept decision on `pod`, namespace/name or a name in default. Refused when there is none."""
    namespace, slash, name = (pod or "").partition("/")
    if not pod:
        raise Refused(400, f"?pod=namespace/name is missing\n{_kept(journal)}")
    found = journal.get(namespace, name) if slash else journal.get("default", pod)
    if found is None:
        raise Refused(404, f"no decision on pod {pod!r} is kept\n{_kept(journal)}")
    return found


def _kept(journal: Journal) -> str:
    pods = [f"  {kept.pod.namespace}/{kept.pod.name}" for kept in journal.newest(_MOST_LISTED)]
    return "\n".join([f"kept are the last decisions of this replica, {len(journal)} now; the newest are", *pods])


def explained(kept: Entry, now: float, as_json: bool) -> bytes:
    """Some 10 ms at 5,000 nodes."""
    facts = kept.ranked_on or kept.judged_on
    assert facts
    explanation = explain.explain(kept.decision, facts, kept.judged_on)
    ago = now - kept.decided_at
    if as_json:
        return msgspec.json.encode(_Explained(ago, explanation))
    return f"decided {ago:.1f} s ago, policy {explanation.policy}\n{explain_text.text(explanation)}".encode()


class _Explained(Struct):
    decided_seconds_ago: float
    explanation: explain.Explanation


def state(snapshot: Snapshot, now: float, policy_problem: str, as_json: bool) -> bytes:
    shown = _state(snapshot, now, policy_problem)
    return msgspec.json.encode(shown) if as_json else _text(shown)


class _Node(Struct):
    freshness: str
    age_seconds: float | None
    address: str | None
    zone: str
    peers_p50_ms: Mapping[str, float | None]
    hardware: Mapping[str, float]


class _State(Struct):
    cluster: str
    revision: int
    age_seconds: float | None
    policy_problem: str
    problems: Mapping[str, str]
    nodes: Mapping[str, _Node]


def _state(snapshot: Snapshot, now: float, policy_problem: str) -> _State:
    nodes = {name: _node(node, now) for name, node in sorted(snapshot.nodes.items())}
    age = age_seconds(snapshot, now)
    return _State(snapshot.cluster, snapshot.revision, age, policy_problem, dict(snapshot.problems), nodes)


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


def _text(state: _State) -> bytes:
    head = f"revision {state.revision} of cluster {state.cluster or '(none)'}, {len(state.nodes)} nodes"
    rows = [f"{name}  {n.freshness}  {_age(n.age_seconds)}  {_peers(n)}" for name, n in state.nodes.items()]
    problems = [f"problem: {key}: {why}" for key, why in state.problems.items()]
    policy = [f"problem: {state.policy_problem}"] if state.policy_problem else []
    return "\n".join([head, *policy, *problems, *rows, ""]).encode()


def _age(seconds: float | None) -> str:
    return "age unknown" if seconds is None else f"{seconds:.1f} s"


def _peers(node: _Node) -> str:
    known = (f"{peer} {p50:.3g} ms" for peer, p50 in node.peers_p50_ms.items() if p50 is not None)
    return ", ".join(known) or "no peer answers"
