"""How two answers to one request differ, and which plugin or weight makes the difference. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from leadsman.decision.decide import FilterResult, ScoreResult, counted_scores, plugin_values, weighted_totals
from leadsman.decision.model import PluginScore


class FirstNodes(NamedTuple):
    """The nodes with the best score: to kube-scheduler they are alike, and its own scores decide among them."""

    nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, scores: Mapping[str, int]) -> "FirstNodes":
        best = max(scores.values(), default=0)
        return cls(tuple(node for node, score in scores.items() if score == best))

    def is_same(self, other: "FirstNodes") -> bool:
        return set(self.nodes) == set(other.nodes)


class FilterDifference(Struct, frozen=True):
    """refused: node that passed → why it does not now. accepted: node that was refused → why it was.
    other_reason: node → the reason that it is refused for now, where that alone changed."""

    refused: Mapping[str, str] = {}
    accepted: Mapping[str, str] = {}
    other_reason: Mapping[str, str] = {}


def compare_filter_results(before: FilterResult, after: FilterResult) -> FilterDifference:
    """Reasons begin with the plugin: `delay: delay to edge-1 over 25 ms`."""
    return FilterDifference(
        {node: _reason(after, node) for node in before.kept if node in after.refused},
        {node: _reason(before, node) for node in before.refused if node not in after.refused},
        {
            node: _reason(after, node)
            for node, refusal in before.refused.items()
            if node in after.refused and after.refused[node] != refusal
        },
    )


def _reason(result: FilterResult, node: str) -> str:
    refusal = result.refused[node]
    return f"{refusal.plugin}: {refusal.reason}"


def why_other_node(before: ScoreResult, after: ScoreResult) -> str:
    """The plugin that brought a new node to the front or an old one from there, with its weights and values.

    Both results are of the same nodes, and their first nodes are not the same.
    """
    old_first, new_first = FirstNodes.of(before.scores).nodes, FirstNodes.of(after.scores).nodes
    rising = [node for node in new_first if node not in old_first] or list(new_first)
    falling = [node for node in old_first if node not in new_first] or list(old_first)
    risen, fallen = _best(rising, after), _best(falling, before)
    pushes = _pushes(before, after, risen, fallen)
    if not pushes:
        return f"no score counts any more: {after.neutral}" if after.neutral else "no score counted before"
    plugin = max(pushes, key=pushes.__getitem__)
    return f"{plugin}: {_change(plugin, before, after, risen, fallen)}"


def _best(nodes: Sequence[str], result: ScoreResult) -> str:
    """The one with the largest total, which the rounded scores do not tell."""
    counted = counted_scores(result.plugin_scores)
    totals = weighted_totals(counted, nodes) if counted else [0.0] * len(nodes)
    return max(zip(totals, nodes, strict=True), key=lambda each: each[0])[1]


def _pushes(before: ScoreResult, after: ScoreResult, risen: str, fallen: str) -> dict[str, float]:
    """Plugin → by how much it moved `risen` past `fallen`."""
    leads_before, leads_after = _leads(before, risen, fallen), _leads(after, risen, fallen)
    plugins = dict.fromkeys([*leads_before, *leads_after])
    return {plugin: leads_after.get(plugin, 0.0) - leads_before.get(plugin, 0.0) for plugin in plugins}


def _leads(result: ScoreResult, risen: str, fallen: str) -> dict[str, float]:
    """Plugin → by how much it puts the one before the other. Not divided by the sum of the weights: that orders no
    node, and would give each plugin a part in what another one's weight did."""
    return {
        score.plugin: score.weight * (_value(score, result, risen) - _value(score, result, fallen))
        for score in counted_scores(result.plugin_scores)
    }


def _value(score: PluginScore, result: ScoreResult, node: str) -> float:
    nodes = list(result.scores)
    return float(plugin_values(score, nodes)[nodes.index(node)])


def _change(plugin: str, before: ScoreResult, after: ScoreResult, risen: str, fallen: str) -> str:
    return f"{_state(plugin, before, risen, fallen)}; now {_state(plugin, after, risen, fallen)}"


def _state(plugin: str, result: ScoreResult, risen: str, fallen: str) -> str:
    counted = counted_scores(result.plugin_scores)
    score = next((each for each in counted if each.plugin == plugin), None)
    if score is None:
        return "does not count"
    share = score.weight / sum(each.weight for each in counted)
    values = f"{risen} {_value(score, result, risen):.2f}, {fallen} {_value(score, result, fallen):.2f}"
    return f"weight {score.weight:g}, {share:.0%} of the score ({values})"
