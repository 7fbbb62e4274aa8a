"""Whether a pod gets an accelerator that it can do without: by gain, by the prior, by bounded exploration."""

from collections.abc import Mapping
from math import log

import pytest
from msgspec.structs import replace

from leadsman.cluster.devices.demand import NO_DEMAND, DeviceDemand
from leadsman.cluster.devices.node_devices import ClaimRequests, DeviceCount, NodeDevices, RequestedWay
from leadsman.decision.decide import decide
from leadsman.decision.devices.device_scores import RUN_SECONDS_QUALITY, GainScore, choose, estimate_gain
from leadsman.decision.explain import explain, format_explanation
from leadsman.decision.inputs import AskedDevices, DecisionInputs, DeviceInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DevicesPolicy, Policy
from leadsman.state.records import Quality, Reward
from leadsman.state.snapshot import AgedReward, Snapshot

NODES = ("gpu-1", "gpu-2", "plain-1", "plain-2")
GPU = NodeDevices({"nvidia.com/gpu": 4})
DEVICES = DeviceInputs(True, {"gpu-1": GPU, "gpu-2": GPU})
ANNOTATIONS = {"leadsman.dev/accelerator": "optional"}


def ran(seconds: Mapping[str, float], samples: float = 10) -> dict[str, AgedReward]:
    return {
        node: AgedReward(Reward(0.0, qualities={RUN_SECONDS_QUALITY: Quality(log(each), samples)}), 0.0)
        for node, each in seconds.items()
    }


def pod(number: int = 1, devices: DeviceDemand = NO_DEMAND, **annotations: str) -> PodInfo:
    given = {f"leadsman.dev/{key}": value for key, value in annotations.items()} or ANNOTATIONS
    return PodInfo("shop", "x", f"uid-{number}", {"app": "train"}, given, devices=devices)


def inputs(seconds: Mapping[str, float], samples: float = 10, **policy: float) -> DecisionInputs:
    settings = Policy(devices=DevicesPolicy(**policy))  # type: ignore[arg-type]
    return DecisionInputs(Snapshot(rewards={"train": ran(seconds, samples)}), settings, 100.0, devices=DEVICES)


def first(facts: DecisionInputs, asked: PodInfo | None = None) -> set[str]:
    score = GainScore().score(asked or pod(), NODES, facts)
    assert score is not None
    return {node for node, value in score.values.items() if value == 1.0}


FASTER = {"gpu-1": 100.0, "gpu-2": 110.0, "plain-1": 300.0, "plain-2": 330.0}
ALIKE = {"gpu-1": 100.0, "gpu-2": 110.0, "plain-1": 120.0, "plain-2": 130.0}


def test_the_decision_follows_the_gain_and_its_reason_is_in_the_explanation() -> None:
    text = format_explanation(explain(decide(pod(), NODES, inputs(FASTER)), inputs(FASTER)))
    assert "nodes with an accelerator first: gain 3.00 (" in text
    assert "20 runs with, 20 without) is at or above 1.5" in text


def test_a_pod_that_has_an_accelerator_among_its_resources_has_no_choice() -> None:
    asking = pod(devices=DeviceDemand(({"nvidia.com/gpu": 1},)))
    assert GainScore().score(asking, NODES, inputs(FASTER)) is None


@pytest.mark.parametrize("value", ["required", "", "Optional"])
def test_nobody_is_scored_who_does_not_say_that_it_can_do_without(value: str) -> None:
    assert GainScore().score(pod(accelerator=value), NODES, inputs(FASTER)) is None


@pytest.mark.parametrize(("prior", "expected"), [(1.0, {"plain-1", "plain-2"}), (2.0, {"gpu-1", "gpu-2"})])
def test_with_too_few_runs_the_prior_decides(prior: float, expected: set[str]) -> None:
    facts = inputs(FASTER, 1.0, gain_prior=prior, gain_explore_ratio=0.0)
    assert first(facts) == expected
    choice = choose(pod(), facts)
    assert choice is not None
    assert "too few runs; the policy's prior is" in choice.reason
    assert first(inputs({}, gain_prior=prior, gain_explore_ratio=0.0)) == expected


def test_runs_on_nodes_that_are_gone_are_of_neither_side() -> None:
    """Nobody knows any more whether they had an accelerator."""
    facts = inputs(FASTER | dict.fromkeys(("gone-1", "gone-2", "gone-3"), 100.0))
    assert first(facts) == {"plain-1", "plain-2"}
    assert first(replace(facts, node_roles=dict.fromkeys(NODES, ""))) == {"gpu-1", "gpu-2"}


def test_a_bounded_share_of_pods_tries_the_side_with_fewer_runs() -> None:
    facts = inputs({"plain-1": 100.0})
    trying = [number for number in range(1_000) if "gpu-1" in first(facts, pod(number))]
    assert 60 <= len(trying) <= 140, "a tenth"
    again = [number for number in range(1_000) if "gpu-1" in first(facts, pod(number))]
    assert again == trying, "the same pods"
    assert not any("gpu-1" in first(inputs(ALIKE), pod(number)) for number in range(1_000)), "nobody with enough runs"


LARGE, SMALL = RequestedWay("large", "class large", 2), RequestedWay("small", "class small")
BOTH, ONE_LEFT = {"class large": DeviceCount(4, 4)}, {"class large": DeviceCount(4, 1)}
SMALL_ONLY = {"class small": DeviceCount(4, 4)}


def claiming(seconds: Mapping[str, float], *ways: RequestedWay, **policy: float) -> tuple[PodInfo, DecisionInputs]:
    """gpu-1 has what the claim prefers free, gpu-2 has too little of it left."""
    nodes = {
        "gpu-1": NodeDevices(selected=BOTH | SMALL_ONLY),
        "gpu-2": NodeDevices(selected=ONE_LEFT | SMALL_ONLY),
        "plain-1": NodeDevices(selected=SMALL_ONLY),
        "plain-2": NodeDevices(selected=SMALL_ONLY),
    }
    asked = AskedDevices({"shop/gpus": ClaimRequests((ways,))})
    asking = PodInfo("shop", "x", "uid-1", {"app": "train"}, devices=DeviceDemand(claims=("gpus",)))
    settings = replace(inputs(seconds, **policy), devices=DeviceInputs(True, nodes, asked=asked))
    return asking, settings


PLAIN = {"gpu-2", "plain-1", "plain-2"}


@pytest.mark.parametrize(
    ("seconds", "policy", "expected", "reason"),
    [
        (FASTER, {}, {"gpu-1"}, "nodes with class large first: gain 3.00 ("),
        (ALIKE, {}, PLAIN, "is below 1.5"),
        (ALIKE, {"gain_threshold": 1.1}, {"gpu-1"}, "is at or above 1.1"),
        ({}, {"gain_explore_ratio": 0.0}, PLAIN, "too few runs; the policy's prior is 1"),
        ({}, {"gain_explore_ratio": 0.0, "gain_prior": 2.0}, {"gpu-1"}, "too few runs; the policy's prior is 2"),
        ({"plain-1": 9.0}, {"gain_explore_ratio": 0.5}, {"gpu-1"}, "this pod tries what has fewer runs"),
    ],
    ids=["above", "below", "threshold", "prior plain", "prior accelerated", "explores"],
)
def test_first_available_is_a_choice_and_gain_ranks_its_first_way(
    seconds: Mapping[str, float], policy: dict[str, float], expected: set[str], reason: str
) -> None:
    asking, facts = claiming(seconds, LARGE, SMALL, **policy)
    assert first(facts, asking) == expected
    assert reason in format_explanation(explain(decide(asking, NODES, facts), facts))


def test_a_claim_with_a_single_way_has_no_choice() -> None:
    asking, facts = claiming(FASTER, LARGE)
    assert GainScore().score(asking, NODES, facts) is None


def test_the_interval_has_the_gain_in_it_and_narrows_with_runs() -> None:
    few, many = (estimate_gain(ran(FASTER, each), {"gpu-1", "gpu-2"}) for each in (5, 500))
    for gain in (few, many):
        assert gain.low is not None
        assert gain.ratio is not None
        assert gain.high is not None
        assert gain.low < gain.ratio < gain.high
    assert many.high - many.low < few.high - few.low  # type: ignore[operator]


def test_a_run_time_that_no_job_ever_had_is_no_fault() -> None:
    rewards = {
        node: AgedReward(Reward(0.0, qualities={RUN_SECONDS_QUALITY: Quality(cost, 10)}), 0.0)
        for node, cost in {"gpu-1": -1000.0, "gpu-2": 800.0, "plain-1": 1000.0}.items()
    }
    gain = estimate_gain(rewards, {"gpu-1", "gpu-2"})
    assert gain.ratio is not None
    assert gain.ratio > 1
