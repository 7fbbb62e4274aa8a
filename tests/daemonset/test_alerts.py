"""Each alert fires when it should and not when it should not, by promtool; it has a runbook, and its metrics exist."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.daemonset.alert_cases import CASES
from tests.daemonset.conftest import ROOT
from tests.dashboard_panels import FOLDER, panels_of
from website.metrics_page import metric_families

FILE = ROOT / "daemonset/components/prometheus/rules.yaml"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: apt-get install prometheus")


@cache
def rules() -> list[dict[str, Any]]:
    spec = yaml.safe_load(FILE.read_text())["spec"]
    return [rule for group in spec["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """The rules as Prometheus reads them, without the Kubernetes object around."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(FILE.read_text())["spec"]))
    return path


def promtool(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.integration
@needs_promtool
def test_promtool_has_no_objection_to_the_rules(groups: Path) -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", str(groups))


def promtool_test(name: str, series: dict[str, str], at_minutes: int, firing: bool) -> dict[str, Any]:
    count = f'sum(ALERTS{{alertname="Leadsman{name}",alertstate="firing"}}) > bool 0 or vector(0)'
    return {
        "name": f"{name} {'fires' if firing else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "promql_expr_test": [
            {"expr": count, "eval_time": f"{at_minutes}m", "exp_samples": [{"labels": "{}", "value": int(firing)}]}
        ],
    }


@pytest.mark.integration
@needs_promtool
def test_each_alert_fires_in_its_case_and_is_quiet_close_to_it(tmp_path: Path) -> None:
    """Each beside the recording rules alone: promtool computes every rule of a file in each minute of each test."""
    files = []
    for name, case in CASES.items():
        kept = [rule for rule in rules() if rule.get("alert", f"Leadsman{name}") == f"Leadsman{name}"]
        rule_file, test_file = (tmp_path / f"{name}{kind}.yaml" for kind in ("", "-tests"))
        rule_file.write_text(yaml.safe_dump({"groups": [{"name": name, "rules": kept}]}))
        tests = [
            promtool_test(name, series, case.at_minutes, firing)
            for series, firing in ((case.firing, True), (case.quiet, False))
        ]
        test_file.write_text(
            yaml.safe_dump({"rule_files": [str(rule_file)], "evaluation_interval": "1m", "tests": tests})
        )
        files.append(str(test_file))
    assert promtool("test", "rules", *files).count("SUCCESS") == len(CASES)


def test_each_alert_has_a_case_and_says_what_happened_how_grave_it_is_and_where_to_read_on() -> None:
    assert {alert["alert"] for alert in alerts()} == {f"Leadsman{name}" for name in CASES}
    for alert in alerts():
        assert alert["labels"]["severity"] in ("critical", "warning", "info"), alert["alert"]
        assert alert["annotations"].keys() == {"summary", "description", "runbook"}, alert["alert"]


def test_each_alert_has_a_section_of_the_runbooks_and_no_section_is_of_none() -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.M)
    assert sections == [alert["alert"] for alert in alerts()]
    for alert in alerts():
        assert alert["annotations"]["runbook"] == f"docs/runbooks.md#{alert['alert'].lower()}"


# Dashboards have the shape that Grafana wants, and name metrics that exist; so do the rules.

RULES = ROOT / "daemonset/components/prometheus/rules.yaml"
PANEL_KINDS = {"row", "stat", "timeseries", "heatmap"}
COLUMNS = 24
"""Of Grafana's grid."""

DASHBOARDS = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_the_shape_that_grafana_s_schema_asks_for(path: Path) -> None:
    """What dashboard.jsonschema.json of grafana-foundation-sdk requires, and what it leaves to Grafana: unique ids,
    places within the grid that do not overlap, a refId a query, a data source that is a variable."""
    made = json.loads(path.read_text())
    assert {"uid", "title", "schemaVersion", "editable", "panels", "templating", "time"} <= made.keys()
    panels: list[dict[str, Any]] = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set[tuple[int, int]]()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert panel["type"] in PANEL_KINDS
        assert at["x"] + at["w"] <= COLUMNS
        assert not cells & taken, f"{panel['title']} covers another"
        taken |= cells
        targets = panel.get("targets", [])
        assert len({target["refId"] for target in targets}) == len(targets)
        assert {target["datasource"]["uid"] for target in targets} <= {"${datasource}"}
    assert made["templating"]["list"][0]["name"] == "datasource"


def expressions() -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    in_rules = [rule["expr"] for group in groups for rule in group["rules"]]
    return in_rules + [query for path in DASHBOARDS for _, queries in panels_of(path) for query in queries]


def test_every_metric_of_rules_and_dashboards_is_made_by_the_code() -> None:
    used = {name for each in expressions() for name in re.findall(r"(?<![:\w])leadsman_\w+", each)}
    assert len(used) > 60
    assert used - {name for family in metric_families() for name in family.series} == set()
