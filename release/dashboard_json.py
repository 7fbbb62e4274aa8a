"""A Grafana dashboard as a table, and the JSON that Grafana imports.

A row of panels has a heading, a panel a title, a unit and its queries. Grafana lays nothing out by itself, so places on
its grid of 24 columns are computed here.
"""

import json
from typing import Any

from msgspec import Struct

SCHEMA_VERSION = 39
"""Of Grafana 11. A newer one migrates it when it is loaded."""
COLUMNS, PANELS_IN_A_ROW, PANEL_HEIGHT = 24, 3, 8


class Panel(Struct, frozen=True):
    """queries: PromQL → the legend of its series. unit: one of Grafana's. kind: a panel plugin of Grafana itself."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    text: str = ""


class Dashboard(Struct, frozen=True):
    """rows: heading → panels. by_node: whether it has a variable `node`."""

    name: str
    title: str
    rows: dict[str, tuple[Panel, ...]]
    by_node: bool = False


def stat(title: str, query: str, unit: str = "short", text: str = "") -> Panel:
    return Panel(title, {query: ""}, unit, "stat", text)


def dashboard_json(dashboard: Dashboard) -> dict[str, Any]:
    """As Grafana imports it."""
    return {
        "uid": f"leadsman-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["leadsman"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "title": "Leadsman",
                "type": "dashboards",
                "tags": ["leadsman"],
                "asDropdown": True,
                "includeVars": False,
                "keepTime": True,
                "icon": "external link",
                "targetBlank": False,
                "tooltip": "",
                "url": "",
            }
        ],
        "templating": {"list": _variables(dashboard)},
        "annotations": {"list": []},
        "panels": _panels(dashboard),
    }


def _variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    node = {
        "name": "node",
        "label": "Node",
        "type": "query",
        "datasource": _SOURCE,
        "query": "label_values(leadsman_agent_info, node)",
        "refresh": 2,
        "sort": 1,
    }
    return [source, node] if dashboard.by_node else [source]


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    placed: list[dict[str, Any]] = []
    top = 0
    for heading, panels in dashboard.rows.items():
        at = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        placed.append(
            {"id": len(placed) + 1, "type": "row", "title": heading, "collapsed": False, "gridPos": at, "panels": []}
        )
        top += 1
        height = PANEL_HEIGHT // 2 if panels[0].kind == "stat" else PANEL_HEIGHT
        for number, panel in enumerate(panels):
            line, column = divmod(number, PANELS_IN_A_ROW)
            width = COLUMNS // PANELS_IN_A_ROW
            at = {"x": column * width, "y": top + line * height, "w": width, "h": height}
            placed.append({"id": len(placed) + 1, "gridPos": at, **_panel(panel)})
        top += -(-len(panels) // PANELS_IN_A_ROW) * height
    return placed


def _panel(panel: Panel) -> dict[str, Any]:
    is_heatmap = panel.kind == "heatmap"
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": expression,
            "legendFormat": legend or "__auto",
            "range": True,
            "format": "heatmap" if is_heatmap else "time_series",
        }
        for number, (expression, legend) in enumerate(panel.queries.items())
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {} if is_heatmap else {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"calculate": False, "yAxis": {"unit": panel.unit}} if is_heatmap else {},
    }


def text_of(dashboard: Dashboard) -> str:
    return json.dumps(dashboard_json(dashboard), indent=2) + "\n"
