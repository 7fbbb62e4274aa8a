"""examples/telemetry: policies, metrics and queries, as the extender reads them."""

from pathlib import Path

import pytest
import yaml

from leadsman.decision.telemetry.taspolicy import STRATEGY_NAMES
from leadsman.decision.telemetry.taspolicy_document import parse_taspolicy
from leadsman.sources.telemetry.polling import parse_queries
from leadsman.state import metric_names

FOLDER = Path(__file__).parents[2] / "examples/telemetry"
POLICIES = sorted((FOLDER / "policies").iterdir())


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_policy_has_no_problem(path: Path) -> None:
    assert parse_taspolicy(yaml.safe_load(path.read_text())).problems == ()


def test_together_they_show_every_strategy() -> None:
    shown = [strategy for path in POLICIES for strategy in yaml.safe_load(path.read_text())["spec"]["strategies"]]
    assert set(shown) == set(STRATEGY_NAMES)


def test_queries_are_those_of_the_policies_and_of_metrics_of_the_agents() -> None:
    strategies = [yaml.safe_load(path.read_text())["spec"]["strategies"] for path in POLICIES]
    ruled = {rule["metricname"] for each in strategies for one in each.values() for rule in one["rules"]}
    assert ruled <= {value for name, value in vars(metric_names).items() if name.isupper()}
    assert set(parse_queries((FOLDER / "queries.yaml").read_text(), "queries.yaml").queries) == ruled
