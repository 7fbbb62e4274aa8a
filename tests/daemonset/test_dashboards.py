"""Dashboards have the shape that Grafana wants, and name metrics that exist; so do the rules."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.daemonset.conftest import ROOT
from tests.dashboard_panels import FOLDER, panels_of
from website.metrics_page import metric_families

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
