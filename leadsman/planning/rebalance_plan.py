"""Finds the pods that another node would serve better by more than a move costs."""

from collections.abc import Iterator, Mapping, Sequence, Set

from leadsman.cluster.model import ClusterPod
from leadsman.decision.decide import MAX_SCORE
from leadsman.decision.model import PluginScore
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.moves.mover import Departures, MoverSettings
from leadsman.planning.moves.ordering import Wish, move_cost, order_moves
from leadsman.planning.moves.search import is_bystander, why_never_moved, why_not_evictable
from leadsman.planning.situation import Situation
from leadsman.published.moves import Departure, LeftOut, MovePlan, PlanOrigin


class RebalanceSettings(MoverSettings, frozen=True, kw_only=True):
    """Settings of rebalancing that an operator chooses.

    threshold: points by which the gain must exceed the cost.
    max_moves: most moves of one plan. Of each node at most one leaves and at most one comes: the measurements that say
        where a pod is better off are of before it moved.
    """

    threshold: float = 1.0
    max_moves: int = 5


_Gain = tuple[float, str, Mapping[str, float]]
"""Points of gain on a node, which is the second, and by score plugin."""


def plan_rebalance(
    situation: Situation,
    departures: Sequence[Departure],
    settings: RebalanceSettings,
    backups: BackupSettings | None,
    taken_at: float | None,
    now: float,
    avoid: Set[str] = frozenset(),
) -> MovePlan:
    """Returns the moves with the most gain. Empty when nothing is worth a move.

    departures: which owners' pods left which nodes, and when: what the last moves left behind.
    taken_at: as the plan has it. now: Unix seconds, as in departures.
    avoid: dead and suspect nodes, beside those that self-healing refuses.
    """
    cluster, avoid = situation.cluster, avoid | situation.inputs.self_healing.refused.keys()
    history = Departures(departures, settings, now)
    wishes: list[tuple[float, Wish, ClusterPod]] = []
    given_up: list[LeftOut] = []
    for pod in cluster.pods.values():
        if not pod.ready or pod.node not in cluster.nodes or pod.node in avoid or is_bystander(pod):
            continue
        if why_never_moved(pod) or why_not_evictable(pod, cluster):
            continue
        best = _best(pod, situation, history, avoid)
        if best is None or best[0] - move_cost(pod, cluster) < settings.threshold:
            continue
        if reason := history.gave_up(pod):
            given_up.append(LeftOut(pod.namespace, pod.name, pod.node, reason))
        elif not history.moved_lately(pod):
            wishes.append((best[0] - move_cost(pod, cluster), _wish(pod, best), pod))
    chosen = _one_for_each_node(sorted(wishes, key=lambda each: (-each[0], each[2].uid)))[: settings.max_moves]
    ordered = order_moves(situation, chosen, backups, frozenset(avoid))
    return MovePlan(
        origin=PlanOrigin.REBALANCE,
        taken_at=taken_at,
        moves=tuple(ordered.moves),
        left_out=(*given_up, *ordered.left_out),
    )


def _best(pod: ClusterPod, situation: Situation, history: Departures, avoid: Set[str]) -> _Gain | None:
    """Returns the node with the most gain; None: no other node may take the pod."""
    barred = {pod.node, *avoid}
    allowed = (node for node in situation.verdict(pod).nodes if node not in barred)
    others = [node for node in allowed if not history.is_barred(pod.owner_uid, node)]
    if not others:
        return None
    scores = situation.scores(pod, [*others, pod.node])
    return max(_gains(pod.node, others, scores), key=lambda gain: gain[:2])


def _gains(home: str, others: Sequence[str], scores: Sequence[PluginScore]) -> Iterator[_Gain]:
    """Returns what is unknown of a node, or of the pod's own, is no gain."""
    weights = sum(score.weight for score in scores)
    for node in others:
        by_plugin = {
            score.plugin: MAX_SCORE * score.weight / weights * (_clipped(score, node) - _clipped(score, home))
            for score in scores
            if node in score.values and home in score.values
        }
        yield sum(by_plugin.values()), node, by_plugin


def _clipped(score: PluginScore, node: str) -> float:
    return min(1.0, max(0.0, score.values[node]))


def _wish(pod: ClusterPod, best: _Gain) -> Wish:
    gain, node, by_plugin = best
    parts = sorted(by_plugin.items(), key=lambda each: -abs(each[1]))
    said = ", ".join(f"{plugin} {points:+.1f}" for plugin, points in parts if round(points, 1))
    return Wish(pod.uid, node, f"node {node} scores higher than node {pod.node} ({said} points)", gain)


def _one_for_each_node(wishes: Sequence[tuple[float, Wish, ClusterPod]]) -> list[Wish]:
    """Returns the first of the wishes that leave the same node, or go to the same one."""
    left, reached, chosen = set[str](), set[str](), list[Wish]()
    for _, wish, pod in wishes:
        if pod.node not in left and wish.to_node not in reached:
            chosen.append(wish)
            left.add(pod.node)
            reached.add(wish.to_node)
    return chosen
