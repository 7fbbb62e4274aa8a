"""Writes charts/leadsman/README.md from the chart's values: python -m tests.daemonset.chart_readme"""

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.daemonset.conftest import CHART

README = CHART / "README.md"
_HEAD = """# The chart leadsman

    helm install leadsman charts/leadsman --namespace leadsman --create-namespace \\
      --set image.registry=registry.example.com

[Deploying](../../docs/deploying.md) says what comes before and after. All values, made from `values.yaml`; a misspelt
or impossible one is refused.

| value | default | |
| --- | --- | --- |
"""


def readme() -> str:
    return _HEAD + "".join(f"| `{name}` | `{default}` | {text} |\n" for name, default, text in _rows())


def _rows() -> Iterator[tuple[str, str, str]]:
    """Each value's path, its default, and the comment above it."""
    values, path, said = yaml.safe_load((CHART / "values.yaml").read_text()), list[str](), list[str]()
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if not text:
            said = []
        elif text.startswith("#"):
            said.append(text.removeprefix("#").strip())
        elif not text.startswith("- "):
            key = text.partition(":")[0]
            path = [*path[: (len(line) - len(line.lstrip())) // 2], key]
            default = _at(values, path)
            if default is not None and (text.partition(":")[2].strip() or said):
                yield ".".join(path), _shown(default), " ".join(said)
            said = []


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _shown(default: Any) -> str:
    text = json.dumps(default)
    return text if len(text) <= 60 else "…"


if __name__ == "__main__":
    README.write_text(readme())
