"""examples/telemetry: policies, metrics and queries, as `leadsman evaluate` and the extender read them."""

from pathlib import Path

import pytest
import yaml

from leadsman.cli.main import main
from leadsman.decision.telemetry.taspolicy import STRATEGY_NAMES
from leadsman.decision.telemetry.taspolicy_document import parse_taspolicy
from leadsman.sources.telemetry.prometheus import parse_queries
from leadsman.state import metric_names

FOLDER = Path(__file__).parents[2] / "examples/telemetry"
POLICIES = sorted((FOLDER / "policies").iterdir())


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_policy_has_no_problem(path: Path) -> None:
    assert parse_taspolicy(yaml.safe_load(path.read_text())).problems == ()


def test_together_they_show_every_strategy() -> None:
    shown = [strategy for path in POLICIES for strategy in yaml.safe_load(path.read_text())["spec"]["strategies"]]
    assert set(shown) == set(STRATEGY_NAMES)


def test_metrics_are_those_of_the_policies_and_of_the_agents_and_have_their_queries() -> None:
    metrics = set(yaml.safe_load((FOLDER / "metrics.yaml").read_text()))
    strategies = [yaml.safe_load(path.read_text())["spec"]["strategies"] for path in POLICIES]
    ruled = {rule["metricname"] for each in strategies for one in each.values() for rule in one["rules"]}
    assert metrics == ruled <= {value for name, value in vars(metric_names).items() if name.isupper()}
    queries = parse_queries((FOLDER / "queries.yaml").read_text(), "queries.yaml")
    assert set(queries.queries) == metrics


def test_evaluate_names_the_hot_node_and_the_one_with_bad_memory(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["evaluate", f"--policies={FOLDER / 'policies'}", f"--metrics={FOLDER / 'metrics.yaml'}"])
    report = capsys.readouterr().out.splitlines()
    assert code == 0
    assert {(line.split()[2], line.split()[5]) for line in report if line.endswith("yes")} == {
        ("temperature_celsius", "edge-2"),
        ("edac_uncorrectable_errors", "edge-3"),
    }
