"""Judges decided requests by the same policy or another: whether the answer changes, where to, and why.

Filter and prioritize are two calls for one pod. So what filter says under the policy is kept for the prioritize call
that follows: a node that it refuses is not scored, and one that it accepts is, as kube-scheduler would have asked about
it. A pod for which filter leaves one node goes there without a prioritize call.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from extender import handlers
from extender.journal import SCHEDULING_ATTEMPT_SECONDS
from leadsman.decision.decide import FilterResult, ScoreResult, counted_scores, filter_nodes, plugin_values, score_nodes
from leadsman.decision.devices.device_filter import without_victims
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PluginScore
from leadsman.decision.policy import Policy
from leadsman.decision.self_healing import PROTECTED, protected_placeholders
from leadsman.runtime.lru import LruCache
from leadsman.sources.recording.messages import PREEMPT, PRIORITIZE, DecidedRequest

# Which plugin or weight makes other nodes the first ones.


def why_other_node(before: ScoreResult, after: ScoreResult, old_first: Sequence[str], new_first: Sequence[str]) -> str:
    """Names the plugin that brought a new node to the front or an old one down, with its weights and values.

    Both results are of the same nodes. old_first, new_first: those with the best score, which are not the same.
    """
    risen = next((node for node in new_first if node not in old_first), new_first[0])
    fallen = next((node for node in old_first if node not in new_first), old_first[0])
    leads_before, leads_after = _leads(before, risen, fallen), _leads(after, risen, fallen)
    plugins = dict.fromkeys([*leads_before, *leads_after])
    if not plugins:
        return f"no score counts any more: {after.neutral}" if after.neutral else "no score counted before"
    plugin = max(plugins, key=lambda each: leads_after.get(each, 0.0) - leads_before.get(each, 0.0))
    return f"{plugin}: {_state(plugin, before, risen, fallen)}; now {_state(plugin, after, risen, fallen)}"


def _leads(result: ScoreResult, risen: str, fallen: str) -> dict[str, float]:
    """Maps each plugin to by how much it puts the one before the other. Not divided by the sum of the weights: that
    orders no node, and would give each plugin a part in what another one's weight did."""
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


MAX_PENDING = 1024
"""Pods of which filter was judged, and prioritize may follow."""

Answer = FilterResult | Mapping[str, int]


class Result(StrEnum):
    """Classes what becomes of one answer; of several results, the first that applies."""

    UNDECIDED = "undecided"
    """The extender answered without a decision, at its deadline or after an error, or its inputs are damaged in the
    recording: there is nothing to compare."""
    FAILED = "failed"
    """It could not be judged: a plugin raised an error."""
    NEWLY_REFUSED = "newly_refused"
    """A node that passed does not."""
    NEWLY_ACCEPTED = "newly_accepted"
    """A node that was refused passes."""
    OTHER_NODE = "other_node"
    """Other nodes have the best score."""
    DETAILS = "details"
    """The same nodes pass and the same ones are first; only scores or reasons differ."""
    AGREE = "agree"
    """The same bytes."""


class Judgement(Struct, frozen=True):
    """Describes what becomes of the answer to one request.

    pod: namespace/name.
    refused: of filter and preempt, node that passed → why it does not now. accepted: node that was refused → why it
        was. Reasons begin with the plugin: `delay: delay to edge-1 over 25 ms`.
    first_before, first_after: nodes with the best score: kube-scheduler's own scores decide among them. (): nobody
        scored them, or none passes. Of filter, only where no prioritize call follows, because at most one node passes.
    why: of another first node; of FAILED, the error.
    """

    verb: str
    pod: str
    result: Result
    refused: Mapping[str, str] = {}
    accepted: Mapping[str, str] = {}
    first_before: tuple[str, ...] = ()
    first_after: tuple[str, ...] = ()
    why: str = ""


def inputs_under(request: DecidedRequest, policy: Policy | None) -> DecisionInputs:
    """Returns what the request was decided on, with another policy; None: its own. Victims are gone."""
    inputs = request.inputs if policy is None else structs.replace(request.inputs, policy=policy)
    return without_victims(request.pod, request.victims, inputs)


def answer_again(request: DecidedRequest, policy: Policy | None = None) -> Answer:
    """Asks the plugins now. policy: in place of the recorded one. Raises NotRecorded, and what a plugin raises."""
    if request.verb == PRIORITIZE:
        return score_nodes(request.pod, request.nodes, inputs_under(request, policy)).scores
    return _filter_again(request, policy)


def _filter_again(request: DecidedRequest, policy: Policy | None) -> FilterResult:
    inputs, nodes = inputs_under(request, policy), request.nodes
    if request.verb != PREEMPT:
        return filter_nodes(request.pod, nodes, inputs)
    protected = dict.fromkeys(protected_placeholders(request.pod, request.victims, inputs), PROTECTED)
    kept, refused = filter_nodes(request.pod, [node for node in nodes if node not in protected], inputs)
    return FilterResult(kept, {**protected, **refused})


def response_bytes(answer: Answer) -> bytes:
    """Encodes the answer in the names form, byte for byte as kube-scheduler gets it.

    In the node form the same nodes are answered with their own bytes, which are not recorded; of preempt, the nodes.
    """
    if isinstance(answer, FilterResult):
        return handlers.filtered_names(answer.kept, {node: each.reason for node, each in answer.refused.items()})
    return handlers.host_priorities(answer)


class Judge:
    """Judges requests one after another. policy: None: that of each request, so that everything should agree."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy
        self._filtered: LruCache[tuple[str, str, str], tuple[DecidedRequest, FilterResult]] = LruCache(MAX_PENDING)

    def judge(self, request: DecidedRequest, is_whole: bool = True) -> Judgement:
        """Judges one request. Never raises: what a plugin raises is a result, as it is for the extender.

        is_whole: whether the recording is, up to this request. Where it is not, only a request counts whose recorded
        answer comes out again under its own policy.
        """
        base = Judgement(request.verb, f"{request.pod.namespace}/{request.pod.name}", Result.AGREE)
        if request.fault:
            return structs.replace(base, result=Result.UNDECIDED, why=request.fault)
        if not is_whole and Judge().judge(request).result is not Result.AGREE:
            return structs.replace(base, result=Result.UNDECIDED, why="some of its inputs are damaged in the recording")
        plugins = (self.policy or request.inputs.policy).plugins
        if plugins.are_used:
            first = [*plugins.filters, *plugins.scores][0]
            why = f"plugin {first.name} is not asked again: what it would say is not recorded"
            return structs.replace(base, result=Result.FAILED, why=why)
        try:
            if isinstance(request.answer, FilterResult):
                return self._judge_filter(base, request, request.answer)
            return self._judge_prioritize(base, request, request.answer)
        except Exception as error:  # Any plugin's.
            return structs.replace(base, result=Result.FAILED, why=f"{type(error).__name__}: {error}")

    def _judge_filter(self, base: Judgement, request: DecidedRequest, before: FilterResult) -> Judgement:
        after = _filter_again(request, self.policy)
        refused = {node: _reason(after, node) for node in before.kept if node in after.refused}
        accepted = {node: _reason(before, node) for node in before.refused if node not in after.refused}
        if refused or accepted:
            result = Result.NEWLY_REFUSED if refused else Result.NEWLY_ACCEPTED
        else:
            result = _agreement(before, after)
        first_before, first_after = tuple[str, ...](), tuple[str, ...]()
        if request.verb != PREEMPT:
            self._filtered.put(_call(request), (request, after))
            if len(before.kept) < 2:
                first_before, first_after = before.kept, self._first(request, after.kept)
        return structs.replace(
            base, result=result, refused=refused, accepted=accepted, first_before=first_before, first_after=first_after
        )

    def _judge_prioritize(self, base: Judgement, request: DecidedRequest, before: Mapping[str, int]) -> Judgement:
        nodes = self._candidates(request)
        after = score_nodes(request.pod, nodes, inputs_under(request, self.policy)).scores
        first_before, first_after = first_nodes(before), first_nodes(after)
        if set(first_before) == set(first_after):
            return structs.replace(base, result=_agreement(before, after))
        return structs.replace(
            base,
            result=Result.OTHER_NODE,
            first_before=first_before,
            first_after=first_after,
            why=self._why_other_node(request, nodes),
        )

    def _first(self, request: DecidedRequest, kept: Sequence[str]) -> tuple[str, ...]:
        """Says which of the nodes that pass would be first."""
        if len(kept) < 2:
            return tuple(kept)
        return first_nodes(score_nodes(request.pod, kept, inputs_under(request, self.policy)).scores)

    def _candidates(self, request: DecidedRequest) -> Sequence[str]:
        """Returns what kube-scheduler would ask about: without those that the policy refuses, with those that it
        accepts."""
        if self.policy is None:
            return request.nodes
        filtered, after = self._filtered.get(_call(request)) or (request, FilterResult((), {}))
        is_older = request.inputs.now - filtered.inputs.now >= SCHEDULING_ATTEMPT_SECONDS
        if is_older or not isinstance(filtered.answer, FilterResult):
            return filter_nodes(request.pod, request.nodes, inputs_under(request, self.policy)).kept
        before = filtered.answer
        if not after.refused and not before.refused:
            return request.nodes
        asked = set(request.nodes)
        passing = (node for node in filtered.nodes if node not in after.refused)
        return CandidateNodes(node for node in passing if node in asked or node in before.refused)

    def _why_other_node(self, request: DecidedRequest, nodes: Sequence[str]) -> str:
        """Scores are compared on the nodes that both policies let pass; where those do not differ, filters decide."""
        asked, scored = set(request.nodes), set(nodes)
        common = CandidateNodes(node for node in nodes if node in asked)
        before = score_nodes(request.pod, common, request.inputs)
        after = score_nodes(request.pod, common, inputs_under(request, self.policy))
        old_first, new_first = first_nodes(before.scores), first_nodes(after.scores)
        if set(old_first) != set(new_first):
            return why_other_node(before, after, old_first, new_first)
        changed = [*(f"{node} is refused" for node in request.nodes if node not in scored)]
        changed += [f"{node} passes" for node in nodes if node not in asked]
        return "other nodes pass filter: " + ", ".join(changed[:5]) + ", …" * (len(changed) > 5)


def first_nodes(scores: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the nodes with the best score."""
    best = max(scores.values(), default=0)
    return tuple(node for node, score in scores.items() if score == best)


def _agreement(before: Answer, after: Answer) -> Result:
    return Result.AGREE if response_bytes(before) == response_bytes(after) else Result.DETAILS


def _call(request: DecidedRequest) -> tuple[str, str, str]:
    return request.pod.namespace, request.pod.name, request.pod.uid


def _reason(result: FilterResult, node: str) -> str:
    refusal = result.refused[node]
    return f"{refusal.plugin}: {refusal.reason}"
