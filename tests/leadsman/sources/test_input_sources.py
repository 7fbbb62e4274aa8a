"""Facts are what each source knows at the moment of the request."""

from typing import Any

from msgspec import Struct

from leadsman.decision.inputs import WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.input_sources import InputSources
from leadsman.state.snapshot import Snapshot


class Standing(Struct):
    current: Any
    problem: Any = ""


def sources(**others):
    state, policy = Standing(Snapshot()), Standing(Policy())
    return InputSources(state, policy, DelaySources(DelaySettings(), state, policy), lambda: 7.0, **others)


def test_without_optional_sources_nothing_is_known_of_workloads_and_pairs() -> None:
    facts = sources().current_inputs()
    assert (facts.workloads.loaded, facts.delay_views, facts.estimates) == (False, (), None)


def test_each_source_is_read_anew_for_each_request() -> None:
    places = Standing(WorkloadIndex())
    made = sources(workloads=places)
    places.current, made.delays.estimator.current = WorkloadIndex({}, 3.0), "estimates"
    facts = made.current_inputs()
    assert (facts.workloads.read_at, facts.estimates, facts.now) == (3.0, "estimates", 7.0)


def test_a_delay_source_that_has_nothing_yet_is_left_out_and_the_order_stands() -> None:
    made = sources()
    made.delays.sources = (Standing("goldpinger"), Standing(None), Standing("static"))
    assert made.current_inputs().delay_views == ("goldpinger", "static")
