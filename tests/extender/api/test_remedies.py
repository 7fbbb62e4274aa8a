"""What is said to give a waiting pod a node: true when it is tried, and the cause first."""

import re
from collections.abc import Callable, Sequence

import pytest

from extender.api.what_if import remedies
from leadsman.decision.decide import FilterResult, filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from tests.extender.api.conftest import Api, ApiStarter


def asked(api: Api, **labels: str) -> list[str]:
    pod, inputs = PodInfo("shop", "p", labels=labels), api.live.sources.inputs.current_inputs()
    assert not filter_nodes(pod, api.cluster.names, inputs).kept
    return remedies(pod, api.cluster.names, inputs, filter_nodes)


@pytest.mark.parametrize(
    ("label", "first"),
    [
        ("delay_nosuch", "no such"),
        ("delay_edge-e-005", "did you mean edge-e-0005?"),
        ("delay_", "names no node or workload"),
    ],
)
async def test_a_bound_to_nothing_is_all_that_is_said(api: Api, label: str, first: str) -> None:
    said = asked(api, **{"delay_edge-a-0000": "1", "delay_edge-e-0005": "1", label: "5"})
    assert first in said[0]
    assert not any("lets" in each for each in said)


@pytest.mark.parametrize("others", [(), ("edge-a-0001",), ("edge-e-0005", "edge-c-0003")])
async def test_what_is_said_to_let_a_node_pass_does(api: Api, others: tuple[str, ...]) -> None:
    labels = {f"delay_{name}": "0.3" for name in ("edge-a-0000", *others)}
    pod = PodInfo("shop", "p", labels={**labels, "delay_edge-a-0000": "0.01", "delay_edge-c-0003": "0.01"})
    inputs = api.live.sources.inputs.current_inputs()
    for text in remedies(pod, api.cluster.names, inputs, filter_nodes):
        if said := re.match(r"a bound of (\d+) ms to (\S+) lets (\S+) pass", text):
            loosened = PodInfo("shop", "p", labels={**pod.labels, f"delay_{said[2]}": said[1]})
            assert filter_nodes(loosened, [said[3]], inputs).kept == (said[3],)


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

    pod = PodInfo("shop", "p", labels={"delay_edge-a-0000": "0.5"})
    inputs = api.live.sources.inputs.current_inputs()
    said = remedies(pod, [each for each in api.cluster.names if each != "edge-a-0000"], inputs, asked)
    lets = [each for each in said if "lets edge" in each]
    assert [f"lets {named} pass" in each for each in lets] == ([True] if named else [])


async def test_a_silent_pair_is_named_and_no_agent_is_blamed(starts_api: ApiStarter) -> None:
    pair = ("edge-a-0000", "edge-f-0007")
    async with starts_api(lost=[pair, pair[::-1]]) as api:
        pod = PodInfo("shop", "p", labels={"delay_edge-a-0000": "0.01"})
        inputs = api.live.sources.inputs.current_inputs()
        said = remedies(pod, ["edge-f-0007"], inputs, filter_nodes)
    assert said == [
        "no reply between edge-a-0000 and edge-f-0007: look at the network between them; no bound lets such a node pass"
    ]


async def test_several_silent_pairs_are_named_as_pairs_with_one_node(starts_api: ApiStarter) -> None:
    silent = [("edge-a-0000", other) for other in ("edge-f-0007", "edge-g-0008")]
    async with starts_api(lost=[*silent, *(pair[::-1] for pair in silent)]) as api:
        pod = PodInfo("shop", "p", labels={"delay_edge-a-0000": "0.01"})
        inputs = api.live.sources.inputs.current_inputs()
        said = remedies(pod, ["edge-f-0007", "edge-g-0008"], inputs, filter_nodes)
    assert said == [
        "no reply between edge-a-0000 and each of edge-f-0007, edge-g-0008: look at the network between them; no bound"
        " lets such a node pass"
    ]
