"""The files of an evaluation → policies, facts, nodes and a request."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from clusterstate.snapshot import Snapshot
from decision.model import Facts
from decision.policy import Policy
from decision.telemetry import document, quantity
from decision.telemetry.known import Policies, Polled, Readings, Refused, Telemetry
from decision.telemetry.ownership import NodeView
from decision.telemetry.policy import KIND, PolicyKey, TasPolicy
from extender import wire

NOW = 0.0
"""Nothing ages here."""


class BadFile(ValueError):
    """Names the file, the place in it, what stands there and what is wanted."""


class Given(Struct, frozen=True):
    """facts: with the policies that are good. where: policy → the file that it is from."""

    facts: Facts
    nodes: Sequence[NodeView]
    where: Mapping[PolicyKey, str]
    asked: wire.Asked | None = None

    @property
    def policies(self) -> Policies:
        return self.facts.telemetry.policies


def read(policies: Path, metrics: Path, nodes: Path | None = None, request: Path | None = None) -> Given:
    """BadFile."""
    used, refused, where = _policies(policies)
    columns = _columns(metrics)
    telemetry = Telemetry(Policies(used, refused, loaded=True), (Polled(columns),))
    views = (
        _nodes(nodes) if nodes else [NodeView(name) for name in sorted({n for c in columns.values() for n in c.values})]
    )
    return Given(
        Facts(Snapshot(), Policy(), NOW, telemetry=telemetry), views, where, _asked(request) if request else None
    )


def _policies(path: Path) -> tuple[dict[PolicyKey, TasPolicy], dict[PolicyKey, Refused], dict[PolicyKey, str]]:
    used: dict[PolicyKey, TasPolicy] = {}
    refused: dict[PolicyKey, Refused] = {}
    where: dict[PolicyKey, str] = {}
    for file in _files(path):
        for plain in _documents(file):
            key = _key(plain, file)
            if key in where:
                raise BadFile(f"{file}: policy {key} stands in {where[key]} too, want it once")
            where[key] = str(file)
            try:
                used[key] = document.parse({**plain, "metadata": {**plain["metadata"], "namespace": key.namespace}})
            except document.BadPolicy as error:
                refused[key] = Refused(error.problem)
    if not where:
        raise BadFile(f"{path}: no {KIND} in it, want *.yaml, *.yml or *.json with at least one")
    return used, refused, where


def _files(path: Path) -> Sequence[Path]:
    return (
        sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json"))
        if path.is_dir()
        else [path]
    )


def _documents(file: Path) -> Iterator[Mapping[str, Any]]:
    """Those of our kind; a List is what it holds."""
    for found in _yaml(file, every=True):
        items = (
            found.get("items") if isinstance(found, dict) and str(found.get("kind", "")).endswith("List") else [found]
        )
        yield from (each for each in items or () if isinstance(each, dict) and each.get("kind") == KIND)


def _key(plain: Mapping[str, Any], file: Path) -> PolicyKey:
    metadata = plain.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str):
        raise BadFile(f"{file}: metadata.name: got {name!r}, want the policy's name")
    return PolicyKey(str(metadata.get("namespace") or "default"), name)


def _columns(file: Path) -> dict[str, Readings]:
    (plain,) = _yaml(file)
    if not isinstance(plain, dict):
        raise BadFile(f"{file}: got {type(plain).__name__}, want {{METRIC: {{NODE: QUANTITY}}}}")
    return {str(metric): _column(values, f"{file}: {metric}") for metric, values in plain.items()}


def _column(values: object, where: str) -> Readings:
    if not isinstance(values, dict):
        raise BadFile(f"{where}: got {values!r}, want {{NODE: QUANTITY}}")
    nanos = {str(node): _quantity(value, f"{where}.{node}") for node, value in values.items() if value is not None}
    return Readings(nanos, dict.fromkeys(nanos, NOW), NOW)


def _quantity(value: object, where: str) -> int:
    try:
        return quantity.parse(str(value))
    except quantity.BadQuantity as error:
        raise BadFile(f"{where}: {error}") from error


def _nodes(file: Path) -> Sequence[NodeView]:
    (plain,) = _yaml(file)
    items = plain.get("items") if isinstance(plain, dict) else plain
    if not isinstance(items, list):
        raise BadFile(
            f"{file}: got {type(items).__name__}, want a list of names, or what `kubectl get nodes -o json` gives"
        )
    return [_node(item, f"{file}: [{position}]") for position, item in enumerate(items)]


def _node(item: object, where: str) -> NodeView:
    if isinstance(item, str):
        return NodeView(item)
    metadata = item.get("metadata") if isinstance(item, dict) else None
    try:
        return msgspec.convert(metadata, NodeView)
    except msgspec.ValidationError as error:
        raise BadFile(f"{where}: {error}; want a name or a Node") from error


def _asked(file: Path) -> wire.Asked:
    try:
        return wire.read_args(file.read_bytes())
    except (OSError, wire.BadRequest) as error:
        raise BadFile(f"{file}: {error}") from error


def _yaml(file: Path, *, every: bool = False) -> Sequence[Any]:
    """All documents but empty ones, or the one. JSON is YAML."""
    try:
        found = [each for each in yaml.safe_load_all(file.read_text()) if each is not None]
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise BadFile(f"{file}: {' '.join(str(error).split())}") from error
    if not every and len(found) != 1:
        raise BadFile(f"{file}: got {len(found)} documents, want one")
    return found
