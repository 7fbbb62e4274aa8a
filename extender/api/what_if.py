"""What would be decided on a pod that does not exist, as a person wrote it. Nothing of it is kept."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from extender.body_limits import RequestRefused
from extender.decider import DEFAULT_CORE, DecisionCore
from extender.journal import JournalEntry
from extender.wire.errors import BadRequest
from extender.wire.verbs import read_args
from leadsman.decision import yaml_document
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo

MAX_YAML_BYTES = 256 << 10
ALLOWED = "YAML of one Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob, at most 256 KiB"


def decide_what_if(
    yaml: str, nodes: Iterable[str], inputs: DecisionInputs, core: DecisionCore = DEFAULT_CORE
) -> JournalEntry:
    """Filters and scores the nodes for the pod. An extender knows nothing of what kube-scheduler itself asks of a node.
    RequestRefused."""
    return decide_on_pod(read_pod(yaml), nodes, inputs, core)


def decide_on_pod(
    pod: PodInfo, nodes: Iterable[str], inputs: DecisionInputs, core: DecisionCore = DEFAULT_CORE
) -> JournalEntry:
    """Filters and scores the nodes."""
    nodes = tuple(nodes)
    filter_result = core.filter_nodes(pod, nodes, inputs)
    score_result = core.score_nodes(pod, filter_result.kept, inputs) if filter_result.kept else None
    return JournalEntry(pod, nodes, inputs.now, filter_result, inputs, score_result, inputs if score_result else None)


def read_pod(yaml: str) -> PodInfo:
    """The pod, or that of a workload's template, as it is read from kube-scheduler's request. RequestRefused."""
    return read_pod_json(pod_json(yaml))


def pod_json(yaml: str) -> bytes:
    """The pod, or that of a workload's template, as the API server stores it. RequestRefused."""
    if len(yaml.encode(errors="replace")) > MAX_YAML_BYTES:
        raise RequestRefused(413, f"the YAML is larger than 256 KiB; allowed: {ALLOWED}")
    try:
        document = yaml_document.load(yaml, MAX_YAML_BYTES)
    except yaml_document.BadDocument as error:
        raise _refused(str(error)) from error
    try:
        return msgspec.json.encode(_with_default_requests(_pod_of(document)))
    except (TypeError, ValueError) as error:
        raise _refused(str(error)) from error


def read_pod_json(manifest: bytes) -> PodInfo:
    """The pod as it is read from kube-scheduler's request. RequestRefused."""
    try:
        return read_args(msgspec.json.encode({"Pod": msgspec.Raw(manifest), "NodeNames": []})).pod
    except (BadRequest, TypeError, ValueError) as error:
        raise _refused(str(error)) from error


def _pod_of(document: object) -> Mapping[str, Any]:
    """The pod itself, or one as its workload makes it. A pod without a name gets one."""
    if not isinstance(document, Mapping):
        raise _refused("the document is not an object")
    kind = document.get("kind")
    metadata = _object(document.get("metadata"), "metadata")
    if kind == "Pod":
        return {**document, "metadata": _with_names(metadata, metadata)}
    path = _TEMPLATE_PATHS.get(str(kind))
    if path is None:
        raise _refused(f"kind is {kind!r}")
    template: Mapping[str, Any] = document
    for field in path:
        template = _object(template.get(field), field)
    owner = {"apiVersion": str(document.get("apiVersion", "")), "kind": kind, "name": str(metadata.get("name", ""))}
    owned = {**_object(template.get("metadata"), "metadata"), "ownerReferences": [owner | {"controller": True}]}
    return {**template, "metadata": _with_names(owned, metadata)}


_TEMPLATE_PATHS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"), ("spec", "template")),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def _with_default_requests(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """As the API server stores it: what has a limit and no request is requested up to its limit.
    Source: SetDefaults_Pod, pkg/apis/core/v1/defaults.go."""
    spec = _object(pod.get("spec"), "spec")
    lists = {field: spec[field] for field in ("containers", "initContainers") if isinstance(spec.get(field), list)}
    filled = {field: [_with_limits_requested(each) for each in containers] for field, containers in lists.items()}
    return {**pod, "spec": {**spec, **filled}}


def _with_limits_requested(container: object) -> Mapping[str, Any]:
    container = _object(container, "container")
    resources = _object(container.get("resources"), "resources")
    limits, requests = (_object(resources.get(field), field) for field in ("limits", "requests"))
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _with_names(metadata: Mapping[str, Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    names = {"namespace": named.get("namespace") or "default", "name": named.get("name") or "what-if"}
    return {**metadata, **names, "uid": "what-if"}


def _object(value: object, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _refused(f"{field} is not an object")
    return value


def _refused(why: str) -> RequestRefused:
    return RequestRefused(400, f"{why}; allowed: {ALLOWED}")
