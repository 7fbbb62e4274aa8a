"""Which plugin or weight makes other nodes the first ones. Pure."""

from collections.abc import Sequence

from leadsman.decision.decide import ScoreResult, counted_scores, plugin_values, weighted_totals
from leadsman.decision.model import PluginScore


def why_other_node(before: ScoreResult, after: ScoreResult, old_first: Sequence[str], new_first: Sequence[str]) -> str:
    """The plugin that brought a new node to the front or an old one from there, with its weights and values.

    Both results are of the same nodes. old_first, new_first: those with the best score, which are not the same.
    """
    risen = _best([node for node in new_first if node not in old_first] or new_first, after)
    fallen = _best([node for node in old_first if node not in new_first] or old_first, before)
    leads_before, leads_after = _leads(before, risen, fallen), _leads(after, risen, fallen)
    plugins = dict.fromkeys([*leads_before, *leads_after])
    if not plugins:
        return f"no score counts any more: {after.neutral}" if after.neutral else "no score counted before"
    plugin = max(plugins, key=lambda each: leads_after.get(each, 0.0) - leads_before.get(each, 0.0))
    return f"{plugin}: {_state(plugin, before, risen, fallen)}; now {_state(plugin, after, risen, fallen)}"


def _best(nodes: Sequence[str], result: ScoreResult) -> str:
    """The one with the largest total, which the rounded scores do not tell."""
    counted = counted_scores(result.plugin_scores)
    totals = weighted_totals(counted, nodes) if counted else [0.0] * len(nodes)
    return max(zip(totals, nodes, strict=True), key=lambda each: each[0])[1]


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


def _state(plugin: str, result: ScoreResult, risen: str, fallen: str) -> str:
    counted = counted_scores(result.plugin_scores)
    score = next((each for each in counted if each.plugin == plugin), None)
    if score is None:
        return "does not count"
    share = score.weight / sum(each.weight for each in counted)
    values = f"{risen} {_value(score, result, risen):.2f}, {fallen} {_value(score, result, fallen):.2f}"
    return f"weight {score.weight:g}, {share:.0%} of the score ({values})"
