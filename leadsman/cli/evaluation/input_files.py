"""Reads the files of an evaluation: policies, metrics, nodes and a request."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from extender import wire
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import quantity, taspolicy_document
from leadsman.decision.telemetry.model import PolledMetrics, Readings, RefusedPolicy, TasPolicies, TelemetryInputs
from leadsman.decision.telemetry.taspolicy import TASPOLICY_KIND, PolicyKey, TasPolicy
from leadsman.planning.labels.ownership import NodeView
from leadsman.runtime.decode_errors import explain
from leadsman.state.snapshot import Snapshot

NOW = 0.0
"""Nothing ages here."""


class BadInputFile(ValueError):
    """A file cannot be used. The text names the file, the place in it, the value and what is allowed."""


class EvaluationInputs(Struct, frozen=True):
    """What is evaluated.

    decision_inputs: with the policies that are valid.
    policy_files: policy → the file that defines it.
    extender_args: the request; None: none was given.
    """

    decision_inputs: DecisionInputs
    nodes: Sequence[NodeView]
    policy_files: Mapping[PolicyKey, str]
    extender_args: wire.ExtenderArgs | None = None

    @property
    def policies(self) -> TasPolicies:
        return self.decision_inputs.telemetry.policies


def read_inputs(
    policies: Path, metrics: Path, nodes: Path | None = None, request: Path | None = None
) -> EvaluationInputs:
    """Reads the files. BadInputFile."""
    used, refused, where = _policies(policies)
    columns = _columns(metrics)
    telemetry = TelemetryInputs(TasPolicies(used, refused, loaded=True), (PolledMetrics(columns),))
    views = (
        _nodes(nodes) if nodes else [NodeView(name) for name in sorted({n for c in columns.values() for n in c.values})]
    )
    return EvaluationInputs(
        DecisionInputs(Snapshot(), Policy(), NOW, telemetry=telemetry),
        views,
        where,
        _extender_args(request) if request else None,
    )


def _policies(path: Path) -> tuple[dict[PolicyKey, TasPolicy], dict[PolicyKey, RefusedPolicy], dict[PolicyKey, str]]:
    used: dict[PolicyKey, TasPolicy] = {}
    refused: dict[PolicyKey, RefusedPolicy] = {}
    where: dict[PolicyKey, str] = {}
    for file in _files(path):
        for plain in _documents(file):
            key = _key(plain, file)
            if key in where:
                raise BadInputFile(f"{file}: policy {key} is defined in {where[key]} too; define it once")
            where[key] = str(file)
            try:
                used[key] = taspolicy_document.parse_taspolicy(
                    {**plain, "metadata": {**plain["metadata"], "namespace": key.namespace}}
                )
            except taspolicy_document.BadTasPolicy as error:
                refused[key] = RefusedPolicy(error.problem)
    if not where:
        raise BadInputFile(f"{path}: contains no {TASPOLICY_KIND}, want *.yaml, *.yml or *.json with at least one")
    return used, refused, where


def _files(path: Path) -> Sequence[Path]:
    return (
        sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json"))
        if path.is_dir()
        else [path]
    )


def _documents(file: Path) -> Iterator[Mapping[str, Any]]:
    """The TASPolicies of a file, also those in a List."""
    for found in _yaml(file, every=True):
        items = (
            found.get("items") if isinstance(found, dict) and str(found.get("kind", "")).endswith("List") else [found]
        )
        yield from (each for each in items or () if isinstance(each, dict) and each.get("kind") == TASPOLICY_KIND)


def _key(plain: Mapping[str, Any], file: Path) -> PolicyKey:
    metadata = plain.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str):
        raise BadInputFile(f"{file}: metadata.name: got {name!r}, want the policy's name")
    return PolicyKey(str(metadata.get("namespace") or "default"), name)


def _columns(file: Path) -> dict[str, Readings]:
    (plain,) = _yaml(file)
    if not isinstance(plain, dict):
        raise BadInputFile(f"{file}: got {type(plain).__name__}, want {{METRIC: {{NODE: QUANTITY}}}}")
    return {str(metric): _column(values, f"{file}: {metric}") for metric, values in plain.items()}


def _column(values: object, where: str) -> Readings:
    if not isinstance(values, dict):
        raise BadInputFile(f"{where}: got {values!r}, want {{NODE: QUANTITY}}")
    nanos = {str(node): _quantity(value, f"{where}.{node}") for node, value in values.items() if value is not None}
    return Readings(nanos, dict.fromkeys(nanos, NOW), NOW)


def _quantity(value: object, where: str) -> int:
    try:
        return quantity.parse(str(value))
    except quantity.BadQuantity as error:
        raise BadInputFile(f"{where}: {error}") from error


def _nodes(file: Path) -> Sequence[NodeView]:
    (plain,) = _yaml(file)
    items = plain.get("items") if isinstance(plain, dict) else plain
    if not isinstance(items, list):
        raise BadInputFile(
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
        raise BadInputFile(f"{where}: {explain(error)}; want a name or a Node") from error


def _extender_args(file: Path) -> wire.ExtenderArgs:
    try:
        return wire.read_args(file.read_bytes())
    except (OSError, wire.BadRequest) as error:
        raise BadInputFile(f"{file}: {error}") from error


def _yaml(file: Path, *, every: bool = False) -> Sequence[Any]:
    """All documents but empty ones; without `every` exactly one. JSON is YAML."""
    try:
        found = [each for each in yaml.safe_load_all(file.read_text()) if each is not None]
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise BadInputFile(f"{file}: {' '.join(str(error).split())}") from error
    if not every and len(found) != 1:
        raise BadInputFile(f"{file}: got {len(found)} documents, want one")
    return found
