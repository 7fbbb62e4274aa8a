"""What kubernetes-edge-scheduler got wrong about constraints; each test fails on its behaviour."""

import pytest

from leadsman.decision.decide import decide, filter_nodes
from tests.leadsman.decision.conftest import Make


def test_every_label_is_honoured_and_not_only_the_first(make: Make) -> None:
    facts = make.facts({"a": make.state({"n": 1.0, "m": 1.0}), "b": make.state({"n": 9.0, "m": 1.0})})
    for labels in ({"delay_a": "5", "delay_b": "5"}, {"delay_b": "5", "delay_a": "5"}):
        assert filter_nodes(make.pod(**labels), ["n", "m"], facts).kept == ("m",)


def test_a_name_is_not_matched_as_a_part_of_another(make: Make) -> None:
    states = {"edge-10": make.state({"n": 1.0}), "n": make.state({})}
    facts = make.facts(states, workloads=make.workloads(deployment_webshop=["webshop-1@edge-10"]))
    for part in ("edge-1", "edge", "web", "shop", "webshop-1"):
        [refusal] = filter_nodes(make.pod(**{f"delay_{part}": "5"}), ["n"], facts).refused.values()
        assert refusal.reason == f"no such node or workload {part}"


def test_a_missing_reference_does_not_send_the_pod_anywhere(make: Make) -> None:
    """The original took the constraint away and chose the cloud node."""
    facts = make.facts({"cloud": make.state({"n": 1.0}), "n": make.state({})}, workloads=make.workloads())
    assert decide(make.pod(delay_gone="5"), ["cloud", "n"], facts).kept == ()


def test_delay_0_means_the_reference_itself_and_pairs_at_0_ms(make: Make) -> None:
    """The original took 0 for no constraint and returned all nodes."""
    facts = make.facts({"ref": make.state({"twin": 0.0, "near": 0.001, "far": 9.0})})
    assert filter_nodes(make.pod(delay_ref="0"), ["ref", "twin", "near", "far"], facts).kept == ("ref", "twin")


def test_a_pair_at_0_ms_is_a_measurement_and_the_best_there_is(make: Make) -> None:
    """The original took 0 ms for not measured."""
    delays = {"twin": 0.0, "near": 1.0, "far": 2.0}
    facts = make.facts(make.confirmed({"ref": make.state(delays), **dict.fromkeys(delays, make.state())}))
    decision = decide(make.pod(delay_ref="5"), ["near", "twin", "far"], facts)
    assert decision.kept == ("near", "twin", "far")
    assert max(decision.scores, key=lambda node: decision.scores[node]) == "twin"


def test_a_node_that_just_joined_is_judged_like_any_other(make: Make) -> None:
    """The original crashed on a node that its matrix did not have."""
    facts = make.facts({"ref": make.state({"n": 1.0})})
    judged = filter_nodes(make.pod(delay_ref="5"), ["n", "new"], facts)
    assert (judged.kept, judged.refused["new"].reason) == (("n",), "delay to ref was not measured")
    assert filter_nodes(make.pod(delay_new="5"), ["n", "new"], facts).kept == ("new",)


@pytest.mark.parametrize("value", ["-1", "abc"])
def test_a_bad_value_is_refused_and_decisions_go_on(make: Make, value: str) -> None:
    """The original's process ended."""
    facts = make.facts({"ref": make.state({"n": 1.0})})
    [refusal] = filter_nodes(make.pod(delay_ref=value), ["n"], facts).refused.values()
    assert refusal.reason == f'label delay_ref: "{value}" is not valid; use milliseconds such as "25" or "2.5"'
    assert filter_nodes(make.pod(delay_ref="5"), ["n"], facts).kept == ("n",)
