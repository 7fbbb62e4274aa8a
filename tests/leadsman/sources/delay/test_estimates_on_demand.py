"""Estimates of one moment are fitted when they are asked for, once."""

import pytest
from msgspec.structs import replace

from leadsman.decision.inputs import DecisionInputs, EstimatedRow
from leadsman.simulator.generated_cluster import generate, parse_spec
from leadsman.sources.delay.fitted_estimates import (
    EstimatesOnDemand,
    fit_estimates,
    gather_measurements,
)
from leadsman.state.snapshot import Snapshot


@pytest.fixture
def inputs() -> DecisionInputs:
    """Twelve nodes, each of which measured five others."""
    return generate(parse_spec("zones=2,racks=2,nodes=3,peers=5,pods=1"))[1]


def test_they_are_those_of_the_first_fit_of_an_extender(inputs: DecisionInputs) -> None:
    measured = gather_measurements(inputs.snapshot, inputs.now, inputs.policy.delay.statistic)
    fitted, on_demand = fit_estimates(measured, inputs.now), EstimatesOnDemand(inputs)
    assert all(on_demand.row(node) == fitted.row(node) for node in inputs.snapshot.nodes)
    assert on_demand.made_at == fitted.made_at


def test_without_fresh_measurements_there_are_none(inputs: DecisionInputs) -> None:
    assert EstimatesOnDemand(replace(inputs, snapshot=Snapshot())).row("z0-r0-n0") == EstimatedRow()
    assert EstimatesOnDemand(replace(inputs, now=1e6)).row("z0-r0-n0") == EstimatedRow()
