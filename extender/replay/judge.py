"""Judges decided requests by another policy, or by the same: does the answer change, where to, and why.

Filter and prioritize are two calls for one pod. So what filter says under the policy is kept for the prioritize call
that follows: a node that it refuses is not scored, and one that it accepts is, as kube-scheduler would have asked about
it. A pod for which filter leaves one node goes there without a prioritize call.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from extender.replay.answers import Answer, answer_again, inputs_under, response_bytes
from extender.replay.difference import FilterDifference, FirstNodes, compare_filter_results, why_other_node
from leadsman.decision.decide import FilterResult, score_nodes
from leadsman.decision.model import CandidateNodes
from leadsman.decision.policy import Policy
from leadsman.runtime.lru import LruCache
from leadsman.sources.recording.decided_request import FILTER, PREEMPT, PRIORITIZE, DecidedRequest

MAX_PENDING = 1024
"""Pods of which filter was judged, and prioritize may follow."""


class Result(StrEnum):
    """What becomes of one answer. Of several, the first that applies."""

    UNDECIDED = "undecided"
    """The extender answered without a decision, at its deadline or after an error: there is nothing to compare."""
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
    """What becomes of the answer to one request.

    pod: namespace/name.
    filtered: of filter and preempt.
    first_before, first_after: nodes with the best score; (): nobody scored them, or none passes. Of filter, only where
        no prioritize call follows, because at most one node passes.
    why: of another first node; of FAILED, the error.
    """

    verb: str
    pod: str
    result: Result
    filtered: FilterDifference = FilterDifference()
    first_before: tuple[str, ...] = ()
    first_after: tuple[str, ...] = ()
    why: str = ""


class _Filtered(NamedTuple):
    """A pod's filter call: what was answered, and what would be."""

    uid: str
    nodes: Sequence[str]
    before: FilterResult
    after: FilterResult


class Judge:
    """Judges requests in their order. policy: None: that of each request, so that everything should agree."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy
        self._filtered: LruCache[tuple[str, str], _Filtered] = LruCache(MAX_PENDING)

    def judge(self, request: DecidedRequest) -> Judgement:
        """Never raises: what a plugin raises is a result, as it is for the extender."""
        if request.fault:
            return self._judgement(request, Result.UNDECIDED, why=request.fault)
        plugins = (self.policy or request.inputs.policy).plugins
        if plugins.are_used:
            first = [*plugins.filters, *plugins.scores][0]
            why = f"plugin {first.name} is not asked again: what it would say is not recorded"
            return self._judgement(request, Result.FAILED, why=why)
        try:
            return _JUDGES[request.verb](self, request)
        except Exception as error:  # Any plugin's.
            return self._judgement(request, Result.FAILED, why=f"{type(error).__name__}: {error}")

    def _judge_filter(self, request: DecidedRequest) -> Judgement:
        before, after = _filter_results(request, answer_again(request, self.policy))
        self._filtered.put(
            (request.pod.namespace, request.pod.name), _Filtered(request.pod.uid, request.nodes, before, after)
        )
        if len(before.kept) > 1:
            return self._compare_filters(request, before, after)
        first_after = self._first_of(request, after)
        return self._compare_filters(request, before, after, before.kept, first_after)

    def _judge_preempt(self, request: DecidedRequest) -> Judgement:
        return self._compare_filters(request, *_filter_results(request, answer_again(request, self.policy)))

    def _judge_prioritize(self, request: DecidedRequest) -> Judgement:
        assert not isinstance(request.answer, FilterResult)
        inputs, nodes = inputs_under(request, self.policy), self._candidates(request)
        after = score_nodes(request.pod, nodes, inputs)
        first_before, first_after = FirstNodes.of(request.answer), FirstNodes.of(after.scores)
        if first_before.is_same(first_after):
            same = response_bytes(request.answer) == response_bytes(after.scores)
            return self._judgement(request, Result.AGREE if same else Result.DETAILS)
        return self._judgement(
            request,
            Result.OTHER_NODE,
            first_before=first_before.nodes,
            first_after=first_after.nodes,
            why=self._why_other_node(request, nodes),
        )

    def _compare_filters(
        self,
        request: DecidedRequest,
        before: FilterResult,
        after: FilterResult,
        first_before: tuple[str, ...] = (),
        first_after: tuple[str, ...] = (),
    ) -> Judgement:
        difference = compare_filter_results(before, after)
        if difference.refused:
            result = Result.NEWLY_REFUSED
        elif difference.accepted:
            result = Result.NEWLY_ACCEPTED
        else:
            same = response_bytes(before) == response_bytes(after)
            result = Result.AGREE if same else Result.DETAILS
        return self._judgement(request, result, difference, first_before, first_after)

    def _first_of(self, request: DecidedRequest, after: FilterResult) -> tuple[str, ...]:
        """Which nodes would be first where the recorded answer left at most one."""
        if len(after.kept) < 2:
            return after.kept
        return FirstNodes.of(score_nodes(request.pod, after.kept, inputs_under(request, self.policy)).scores).nodes

    def _candidates(self, request: DecidedRequest) -> Sequence[str]:
        """What kube-scheduler would ask about: without those that the policy refuses, with those that it accepts."""
        if self.policy is None:
            return request.nodes
        filtered = self._filtered.get((request.pod.namespace, request.pod.name))
        if filtered is None or filtered.uid != request.pod.uid:
            again = DecidedRequest(FILTER, request.pod, request.nodes, request.inputs, FilterResult((), {}))
            kept = answer_again(again, self.policy)
            assert isinstance(kept, FilterResult)
            return kept.kept
        asked, refused = set(request.nodes), filtered.after.refused
        if not refused and not filtered.before.refused:
            return request.nodes
        return CandidateNodes(
            node
            for node in filtered.nodes
            if node not in refused and (node in asked or node in filtered.before.refused)
        )

    def _why_other_node(self, request: DecidedRequest, nodes: Sequence[str]) -> str:
        """Scores are compared on the nodes that both policies let pass; where those do not differ, filters decide."""
        asked, scored = set(request.nodes), set(nodes)
        common = CandidateNodes(node for node in nodes if node in asked)
        before = score_nodes(request.pod, common, request.inputs)
        after = score_nodes(request.pod, common, inputs_under(request, self.policy))
        if common and not FirstNodes.of(before.scores).is_same(FirstNodes.of(after.scores)):
            return why_other_node(before, after)
        changed = [*(f"{node} is refused" for node in request.nodes if node not in scored)]
        changed += [f"{node} passes" for node in nodes if node not in asked]
        return "other nodes pass filter: " + ", ".join(changed[:5]) + ", …" * (len(changed) > 5)

    def _judgement(
        self,
        request: DecidedRequest,
        result: Result,
        filtered: FilterDifference = FilterDifference(),  # noqa: B008 -- frozen
        first_before: tuple[str, ...] = (),
        first_after: tuple[str, ...] = (),
        why: str = "",
    ) -> Judgement:
        pod = f"{request.pod.namespace}/{request.pod.name}"
        return Judgement(request.verb, pod, result, filtered, first_before, first_after, why)


def _filter_results(request: DecidedRequest, again: Answer) -> tuple[FilterResult, FilterResult]:
    assert isinstance(request.answer, FilterResult)
    assert isinstance(again, FilterResult)
    return request.answer, again


_JUDGES: Mapping[str, Callable[[Judge, DecidedRequest], Judgement]] = {
    FILTER: Judge._judge_filter,
    PRIORITIZE: Judge._judge_prioritize,
    PREEMPT: Judge._judge_preempt,
}
