"""Decides on a pod that does not exist, as a person wrote it. Nothing of it is kept."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import msgspec
from msgspec.structs import replace

from extender.api.requests import did_you_mean
from extender.body_limits import RequestRefused
from extender.decider import DEFAULT_CORE, DecisionCore
from extender.journal import JournalEntry
from extender.wire.bad_request import BadRequest
from extender.wire.verbs import read_args
from leadsman.decision import yaml_document
from leadsman.decision.decide import FilterResult
from leadsman.decision.delay.bounds import BadBound, DelayBound, NoTarget, TargetName, parse_bounds, resolve_target
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.rtt_table import Outcome, reason
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX
from leadsman.state.records import LONGEST_PROBE_SECONDS
from leadsman.state.snapshot import Freshness

DEFAULT_NAMESPACE = "default"
MAX_YAML_BYTES = 256 << 10
ALLOWED = "YAML of one Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob, at most 256 KiB"


def decide_on_pod(
    pod: PodInfo, nodes: Iterable[str], inputs: DecisionInputs, core: DecisionCore = DEFAULT_CORE
) -> JournalEntry:
    """Filters and scores the nodes; what kube-scheduler itself asks of a node is not known here."""
    nodes = tuple(nodes)
    filter_result = core.filter_nodes(pod, nodes, inputs)
    score_result = core.score_nodes(pod, filter_result.kept, inputs) if filter_result.kept else None
    return JournalEntry(pod, nodes, inputs.now, filter_result, inputs, score_result, inputs if score_result else None)


def read_pod(yaml: str, namespace: str = DEFAULT_NAMESPACE) -> PodInfo:
    """Reads a pod, or the one in a workload's template, as kube-scheduler would send it. Raises RequestRefused."""
    return read_pod_json(pod_json(yaml, namespace))


def pod_json(yaml: str, namespace: str = DEFAULT_NAMESPACE) -> bytes:
    """Returns the pod, or the one in a workload's template, as the API server stores it. Raises RequestRefused.

    namespace: of a document that names none.
    """
    if len(yaml.encode(errors="replace")) > MAX_YAML_BYTES:
        raise RequestRefused(413, f"the YAML is larger than 256 KiB; allowed: {ALLOWED}")
    try:
        document = yaml_document.load(yaml, MAX_YAML_BYTES)
    except yaml_document.BadDocument as error:
        raise _refused(str(error)) from error
    return pod_json_of(document, namespace)


def pod_json_of(document: object, namespace: str = DEFAULT_NAMESPACE) -> bytes:
    """Does what `pod_json` does with a document that is parsed already. Raises RequestRefused."""
    try:
        return msgspec.json.encode(_with_default_requests(_pod_of(document, namespace)))
    except (TypeError, ValueError) as error:
        raise _refused(str(error)) from error


def read_pod_json(manifest: bytes) -> PodInfo:
    """Reads a pod's JSON as if kube-scheduler had sent it. Raises RequestRefused."""
    try:
        return read_args(msgspec.json.encode({"Pod": msgspec.Raw(manifest), "NodeNames": []})).pod
    except (BadRequest, TypeError, ValueError) as error:
        raise _refused(str(error)) from error


def _pod_of(document: object, namespace: str) -> Mapping[str, Any]:
    """Returns the pod itself, or one as its workload makes it. A pod without a name gets one."""
    if not isinstance(document, Mapping):
        raise _refused("the document is not an object")
    kind = document.get("kind")
    metadata = _object(document.get("metadata"), "metadata")
    if kind == "Pod":
        return {**document, "metadata": _with_names(metadata, metadata, namespace)}
    path = _TEMPLATE_PATHS.get(str(kind))
    if path is None:
        raise _refused(f"kind is {kind!r}")
    template: Mapping[str, Any] = document
    for field in path:
        template = _object(template.get(field), field)
    owner = {"apiVersion": str(document.get("apiVersion", "")), "kind": kind, "name": str(metadata.get("name", ""))}
    owned = {**_object(template.get("metadata"), "metadata"), "ownerReferences": [owner | {"controller": True}]}
    return {**template, "metadata": _with_names(owned, metadata, namespace)}


_TEMPLATE_PATHS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"), ("spec", "template")
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def _with_default_requests(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds default requests as the API server does: what has a limit and no request is requested up to its limit.
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


def _with_names(metadata: Mapping[str, Any], named: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    names = {"namespace": named.get("namespace") or namespace, "name": named.get("name") or "what-if"}
    return {**metadata, **names, "uid": "what-if"}


def _object(value: object, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _refused(f"{field} is not an object")
    return value


def _refused(why: str) -> RequestRefused:
    return RequestRefused(400, f"{why}; allowed: {ALLOWED}")


# What would give a pod a node, when none passed. Nothing is said to help before it was decided again with it.

FilterNodes = Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult]

LONGEST_BOUND_MS = 1e3 * LONGEST_PROBE_SECONDS
"""No bound may be larger, and no round trip that is measured is."""

_NAMED_NODES = 3


def remedies(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, filter_nodes: FilterNodes) -> list[str]:
    """Lists what would help. Faults of the bounds come alone: while they stand, no other change helps."""
    try:
        bounds = parse_bounds(pod)
    except BadBound as error:
        return [str(error)]
    if unresolved := list(_unresolved(bounds, pod, nodes, inputs)):
        return unresolved
    distances = delay_evidence(pod, nodes, inputs).distances
    return [*_looser_bounds(bounds, pod, nodes, inputs, filter_nodes), *_unmeasured(distances, inputs)]


def _unresolved(
    bounds: Sequence[DelayBound], pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs
) -> Iterator[str]:
    for bound in bounds:
        target = resolve_target(bound, pod, nodes, inputs)
        if isinstance(target, NoTarget):
            names, misspelt = {*inputs.snapshot.nodes, *nodes}, target.reason.startswith("no such")
            meant = did_you_mean(TargetName.of(bound.reference).name, names) if misspelt else ""
            yield f"{target.reason}{meant}"


def _looser_bounds(
    bounds: Sequence[DelayBound], pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, filter_nodes: FilterNodes
) -> Iterator[str]:
    """Yields, for each bound that alone stands in the way of some node, the least change that lets one pass."""
    found = list[tuple[float, str]]()
    for reference, bound_ms in {bound.reference: bound.ms for bound in bounds}.items():
        without = _with_bound(pod, reference, LONGEST_BOUND_MS)
        kept = filter_nodes(without, nodes, inputs).kept
        reached = [
            (decisive_ms, node)
            for node, distances in delay_evidence(without, kept, inputs).distances.items()
            for each in distances
            if each.bound_ms == LONGEST_BOUND_MS and (decisive_ms := _decisive_ms(each)) is not None
        ]
        if not reached:
            continue
        decisive_ms, node = min(reached)
        needed_ms, over_ms = max(ceil(decisive_ms), 1), decisive_ms - bound_ms
        if filter_nodes(_with_bound(pod, reference, needed_ms), [node], inputs).kept:
            text = f"a bound of {needed_ms} ms to {reference} lets {node} pass: it is {decisive_ms:.3g} ms away"
            found.append((over_ms, f"{text}, {over_ms:.3g} ms over the bound of {bound_ms:g} ms"))
    yield from (text for _, text in sorted(found))


def _with_bound(pod: PodInfo, reference: str, ms: float) -> PodInfo:
    """Returns the same pod, with its bounds to this reference at so many milliseconds."""
    label = f"{DELAY_LABEL_PREFIX}{reference}"
    line = re.compile(rf"^(\s*{re.escape(reference)}\s*:\s*)[0-9.]+", re.MULTILINE)
    labels = {**pod.labels, label: f"{ms:.0f}"} if label in pod.labels else pod.labels
    text = line.sub(rf"\g<1>{ms:.0f}", pod.annotations.get(DELAY_ANNOTATION, ""))
    return replace(pod, labels=labels, annotations={**pod.annotations, DELAY_ANNOTATION: text})


def _decisive_ms(evidence: DelayEvidence) -> float | None:
    """Returns what is compared with the bound: of an estimate its upper end."""
    return evidence.high_ms if evidence.estimated else evidence.rtt_ms


def _unmeasured(distances: Mapping[str, Sequence[DelayEvidence]], inputs: DecisionInputs) -> Iterator[str]:
    """Says why nodes have no round trip to a target, those that get no reply first."""
    silent, unknown = dict[str, list[str]](), dict[str, list[str]]()
    for node, bounds in distances.items():
        for each in bounds:
            if each.why == reason(Outcome.NO_REPLY, each.to, each.bound_ms):
                silent.setdefault(each.reference, []).append(node)
            elif _decisive_ms(each) is None:
                unknown.setdefault(each.reference, []).append(node)
    for reference, nodes in silent.items():
        yield (
            f"no reply between {reference} and {_named(nodes)}: look at the network between them;"
            " no bound lets such a node pass"
        )
    for reference, nodes in unknown.items():
        if inputs.freshness_of(reference) is not Freshness.FRESH:
            yield f"nothing new is reported by {reference}: see that an agent runs there and reaches etcd"
        else:
            yield (
                f"no delay is known between {reference} and {_named(nodes)}: agents are asked to measure some of these"
                " pairs, and the next attempt uses it"
            )


def _named(nodes: Sequence[str]) -> str:
    if len(nodes) <= _NAMED_NODES:
        return f"each of {', '.join(nodes)}" if len(nodes) > 1 else nodes[0]
    return f"{len(nodes)} nodes ({', '.join(nodes[:_NAMED_NODES])}, …)"
