"""What is said to give a waiting pod a node: true when it is tried, and the cause first."""

import re
from collections.abc import Callable, Mapping, Sequence

import pytest

from extender.api.what_if import remedies
from leadsman.decision.decide import FilterResult, filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from tests.extender.api.conftest import Api, started

Filter = Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult]


def said(api: Api, labels: Mapping[str, str], nodes: Sequence[str] = (), ask: Filter = filter_nodes) -> Sequence[str]:
    """Of a pod with these labels, among these nodes, or all."""
    pod, inputs = PodInfo("shop", "p", labels=labels), api.live.sources.inputs.current_inputs()
    return remedies(pod, nodes or api.cluster.names, inputs, ask)


@pytest.mark.parametrize(
    ("label", "first"),
    [
        ("delay_nosuch", "no such"),
        ("delay_edge-e-005", "did you mean edge-e-0005?"),
        ("delay_", "names no node or workload"),
    ],
)
async def test_a_bound_to_nothing_is_all_that_is_said(api: Api, label: str, first: str) -> None:
    told = said(api, {"delay_edge-a-0000": "1", "delay_edge-e-0005": "1", label: "5"})
    assert first in told[0]
    assert not any("lets" in each for each in told)


@pytest.mark.parametrize("others", [(), ("edge-a-0001",), ("edge-e-0005", "edge-c-0003")])
async def test_what_is_said_to_let_a_node_pass_does(api: Api, others: tuple[str, ...]) -> None:
    labels = {f"delay_{name}": "0.3" for name in ("edge-a-0000", *others)}
    labels |= {"delay_edge-a-0000": "0.01", "delay_edge-c-0003": "0.01"}
    for text in said(api, labels):
        if loose := re.match(r"a bound of (\d+) ms to (\S+) lets (\S+) pass", text):
            loosened = PodInfo("shop", "p", labels={**labels, f"delay_{loose[2]}": loose[1]})
            inputs = api.live.sources.inputs.current_inputs()
            assert filter_nodes(loosened, [loose[3]], inputs).kept == (loose[3],)


NEAREST, NEXT = "edge-a-0001", "edge-h-0009"


@pytest.mark.parametrize(
    ("refuses", "named"),
    [
        (lambda pod, node: True, None),
        (lambda pod, node: node == NEAREST, NEXT),
        (lambda pod, node: float(pod.labels["delay_edge-a-0000"]) < 1000, None),
    ],
    ids=["every-node", "the-nearest-node", "any-bound-that-would-do"],
)
async def test_a_looser_bound_is_said_only_where_nothing_else_refuses(
    api: Api, refuses: Callable[[PodInfo, str], bool], named: str | None
) -> None:
    def asked(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> FilterResult:
        kept, refused = filter_nodes(pod, nodes, inputs)
        hot = {node: Refusal("rule", "too hot") for node in kept if refuses(pod, node)}
        return FilterResult(tuple(node for node in kept if node not in hot), {**refused, **hot})

    others = [each for each in api.cluster.names if each != "edge-a-0000"]
    lets = [each for each in said(api, {"delay_edge-a-0000": "0.5"}, others, asked) if "lets edge" in each]
    assert [f"lets {named} pass" in each for each in lets] == ([True] if named else [])


@pytest.mark.parametrize(
    ("silent", "between"),
    [
        (["edge-f-0007"], "edge-a-0000 and edge-f-0007"),
        (["edge-f-0007", "edge-g-0008"], "edge-a-0000 and each of edge-f-0007, edge-g-0008"),
    ],
    ids=["one", "two"],
)
async def test_silent_pairs_are_named_and_no_agent_is_blamed(silent: Sequence[str], between: str) -> None:
    pairs = [("edge-a-0000", other) for other in silent]
    async with started(lost=[*pairs, *(pair[::-1] for pair in pairs)]) as api:
        [told] = said(api, {"delay_edge-a-0000": "0.01"}, silent)
    assert told == f"no reply between {between}: look at the network between them; no bound lets such a node pass"
