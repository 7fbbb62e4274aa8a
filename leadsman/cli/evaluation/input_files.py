"""Reads the files of an evaluation: policies, metrics, nodes and a request."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from extender.wire.errors import BadRequest
from extender.wire.verbs import ExtenderArgs, read_args
from leadsman.cli.evaluation.documents import (
    BadInputFile,
    display_name,
    read_bytes,
    read_document,
    read_documents,
    read_items,
)
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import taspolicy_document
from leadsman.decision.telemetry.model import PolledMetrics, Readings, RefusedPolicy, TasPolicies, TelemetryInputs
from leadsman.decision.telemetry.taspolicy import (
    TASPOLICY_GROUP,
    TASPOLICY_KIND,
    TASPOLICY_VERSION,
    PolicyKey,
    TasPolicy,
)
from leadsman.kube import quantity
from leadsman.planning.labels.ownership import NodeView
from leadsman.runtime.decode_errors import explain
from leadsman.state.snapshot import Snapshot

NOW = 0.0
"""Nothing ages here."""


class PolicyFiles(Struct, frozen=True):
    """The TASPolicies of all files.

    used: those that are valid.
    refused: those that are not.
    sources: policy → the file that it is from.
    skipped: how many documents are of another kind.
    """

    used: Mapping[PolicyKey, TasPolicy]
    refused: Mapping[PolicyKey, RefusedPolicy]
    sources: Mapping[PolicyKey, str]
    skipped: int = 0


class EvaluationInputs(Struct, frozen=True):
    """What is evaluated.

    decision_inputs: with the policies that are valid.
    policy_files: the policies as they were read.
    extender_args: the request; None: none was given.
    """

    decision_inputs: DecisionInputs
    nodes: Sequence[NodeView]
    policy_files: PolicyFiles
    extender_args: ExtenderArgs | None = None

    @property
    def policies(self) -> TasPolicies:
        return self.decision_inputs.telemetry.policies


def read_inputs(
    policies: Path, metrics: Path, nodes: Path | None = None, request: Path | None = None
) -> EvaluationInputs:
    """Reads the files. BadInputFile."""
    found, columns = _policies(policies), _columns(metrics)
    telemetry = TelemetryInputs(TasPolicies(found.used, found.refused, loaded=True), (PolledMetrics(columns),))
    views = (
        _nodes(nodes) if nodes else [NodeView(name) for name in sorted({n for c in columns.values() for n in c.values})]
    )
    return EvaluationInputs(
        DecisionInputs(Snapshot(), Policy(), NOW, telemetry=telemetry),
        views,
        found,
        _extender_args(request) if request else None,
    )


def _policies(path: Path) -> PolicyFiles:
    """None at all is a set of policies, too: then every label that the policies left behind goes."""
    used: dict[PolicyKey, TasPolicy] = {}
    refused: dict[PolicyKey, RefusedPolicy] = {}
    sources: dict[PolicyKey, str] = {}
    skipped = 0
    for file, plain in ((each, found) for each in _files(path) for found in _objects(each)):
        if not isinstance(plain, dict) or plain.get("kind") != TASPOLICY_KIND:
            skipped += 1
            continue
        key = _key(plain, file)
        if key in sources:
            raise BadInputFile(f"{display_name(file)}: policy {key} is defined in {sources[key]} too; define it once")
        sources[key] = display_name(file)
        try:
            used[key] = _policy(plain, key)
        except taspolicy_document.BadTasPolicy as error:
            refused[key] = RefusedPolicy(error.problem)
    if skipped and not sources:
        raise BadInputFile(
            f"{display_name(path)}: contains no {TASPOLICY_KIND}, only documents of other kinds: {skipped}"
        )
    return PolicyFiles(used, refused, sources, skipped)


API_VERSION = f"{TASPOLICY_GROUP}/{TASPOLICY_VERSION}"


def _policy(plain: Mapping[str, Any], key: PolicyKey) -> TasPolicy:
    """BadTasPolicy, also for another version of the API, which the API server would not take."""
    version = plain.get("apiVersion")
    if version != API_VERSION:
        raise taspolicy_document.BadTasPolicy("apiVersion", f"got {version or 'nothing'}, allowed is {API_VERSION}")
    metadata = {**plain["metadata"], "namespace": key.namespace}
    return taspolicy_document.parse_taspolicy({**plain, "metadata": metadata})


def _files(path: Path) -> Sequence[Path]:
    return (
        sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json"))
        if path.is_dir()
        else [path]
    )


def _objects(file: Path) -> Iterator[Any]:
    """Each document; of a List its items."""
    for found in read_documents(file):
        if not isinstance(found, dict) or not str(found.get("kind", "")).endswith("List"):
            yield found
            continue
        items = found.get("items") or []
        if not isinstance(items, list):
            raise BadInputFile(f"{display_name(file)}: items: got {items!r}, want a list")
        yield from items


def _key(plain: Mapping[str, Any], file: Path) -> PolicyKey:
    metadata = plain.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str):
        raise BadInputFile(f"{display_name(file)}: metadata.name: got {name!r}, want the policy's name")
    return PolicyKey(str(metadata.get("namespace") or "default"), name)


def _columns(file: Path) -> dict[str, Readings]:
    plain = read_document(file)
    if not isinstance(plain, dict):
        raise BadInputFile(f"{display_name(file)}: got {type(plain).__name__}, want {{METRIC: {{NODE: QUANTITY}}}}")
    return {str(metric): _column(values, f"{display_name(file)}: {metric}") for metric, values in plain.items()}


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
    where = display_name(file)
    return [_node(item, f"{where}: [{position}]") for position, item in enumerate(read_items(file))]


def _node(item: object, where: str) -> NodeView:
    if isinstance(item, str):
        return NodeView(item)
    metadata = item.get("metadata") if isinstance(item, dict) else None
    try:
        return msgspec.convert(metadata, NodeView)
    except msgspec.ValidationError as error:
        raise BadInputFile(f"{where}: {explain(error)}; want a name or a Node") from error


def _extender_args(file: Path) -> ExtenderArgs:
    try:
        return read_args(read_bytes(file))
    except BadRequest as error:
        raise BadInputFile(f"{display_name(file)}: {error}") from error
