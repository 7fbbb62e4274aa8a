"""Reads the files of an evaluation: policies, metrics, nodes and a request."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from extender.wire.errors import BadRequest
from extender.wire.verbs import ExtenderArgs, read_args
from leadsman.decision import yaml_document
from leadsman.decision.inputs import (
    DecisionInputs,
    PolledMetrics,
    Readings,
    RefusedPolicy,
    TasPolicies,
    TelemetryInputs,
)
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import taspolicy_document
from leadsman.decision.telemetry.taspolicy import (
    TASPOLICY_GROUP,
    TASPOLICY_KIND,
    TASPOLICY_VERSION,
    PolicyKey,
    TasPolicy,
)
from leadsman.kube import quantity
from leadsman.planning.labels.label_plan import NodeView
from leadsman.runtime.decode_errors import explain
from leadsman.state.snapshot import Snapshot

STANDARD_INPUT = Path("-")


class BadInputFile(ValueError):
    """A file cannot be used. The text names the file, the place in it, the value and what is allowed."""


class _JsonList(msgspec.Struct):
    """A List of Kubernetes, its items not decoded."""

    items: list[msgspec.Raw]


def display_name(file: Path) -> str:
    return "standard input" if file == STANDARD_INPUT else str(file)


def read_bytes(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        raise BadInputFile(f"{display_name(file)}: {error.strerror or error}") from error


def read_documents(file: Path) -> Sequence[Any]:
    """All documents but empty ones."""
    return _parsed(read_bytes(file), file)


def _parsed(content: bytes, file: Path) -> Sequence[Any]:
    try:
        return [each for each in _documents(content.decode(), file.suffix) if each is not None]
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise BadInputFile(f"{display_name(file)}: {yaml_document.error_text(error)}") from error


def read_document(file: Path) -> Any:
    return _one(read_documents(file), file)


def _one(found: Sequence[Any], file: Path) -> Any:
    if len(found) != 1:
        raise BadInputFile(f"{display_name(file)}: got {len(found)} documents, want one")
    return found[0]


def read_items(file: Path) -> Iterator[Any]:
    """The items of a List, or of a plain list. BadInputFile, also while iterating.

    In JSON they are decoded one at a time: 5,000 nodes are 97 MB of text, and three times that as objects.
    """
    content = read_bytes(file)
    try:
        raw = msgspec.json.decode(content, type=list[msgspec.Raw] | _JsonList)
    except (msgspec.DecodeError, RecursionError):  # It is YAML, or the slower way says what is wrong with it.
        yield from _plain_items(_one(_parsed(content, file), file), file)
        return
    for position, item in enumerate(raw if isinstance(raw, list) else raw.items):
        try:
            yield json.loads(bytes(item), object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            raise BadInputFile(f"{display_name(file)}: [{position}]: {yaml_document.error_text(error)}") from error


def _plain_items(document: Any, file: Path) -> Sequence[Any]:
    items = document.get("items") if isinstance(document, dict) else document
    if not isinstance(items, list):
        got = "no items" if items is None else type(items).__name__
        raise BadInputFile(
            f"{display_name(file)}: got {got}, want a list of names, or what `kubectl get nodes -o json` gives"
        )
    return items


def _documents(text: str, suffix: str) -> Sequence[Any]:
    """JSON is YAML, but for the tabs that may indent it."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text, object_pairs_hook=_unique_keys)]
        except json.JSONDecodeError:
            if suffix == ".json":
                raise
    return list(yaml.load_all(text, Loader=yaml_document.StrictLoader))


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"got {key[:60]!r} twice, allowed once")
        found[key] = value
    return found


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
