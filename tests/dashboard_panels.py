"""Reads the Grafana dashboards of the component `dashboards`."""

import json
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "daemonset/components/dashboards"


def panels_of(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields each panel's title with its queries; headings have none."""
    for panel in json.loads(path.read_text())["panels"]:
        yield panel["title"], [target["expr"] for target in panel.get("targets", ())]
