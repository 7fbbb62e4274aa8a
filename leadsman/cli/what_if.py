"""What would be decided on a pod that does not exist, on a snapshot of the cluster. Nothing is kept or changed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from extender.wire.errors import BadRequest
from extender.wire.verbs import read_args
from leadsman.cli import output
from leadsman.decision import explain, explain_text
from leadsman.decision.decide import decide
from leadsman.decision.model import PodInfo
from leadsman.sources.cluster_snapshot.reading import BadSnapshot, read_snapshot
from leadsman.sources.delay.estimates_on_demand import EstimatesOnDemand


def read_pod(text: str, source: str) -> PodInfo:
    """The Pod, or that of a workload's template, as the extender reads it. ValueError names `source` and the field."""
    try:
        found = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"{source}: {error}") from error
    if len(found) != 1 or not isinstance(found[0], dict):
        raise ValueError(
            f"{source}: got {len(found)} documents, want one Pod, Deployment, StatefulSet, DaemonSet or Job"
        )
    pod = _pod_of(found[0], source)
    try:
        body = msgspec.json.encode({"Pod": pod, "NodeNames": []}, enc_hook=str)
        return read_args(body).pod
    except BadRequest as error:
        raise ValueError(f"{source}: {error}") from error


def _pod_of(document: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """A template has no name of its own: its pods are called as the workload."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ValueError(f"{source}: metadata.name: got nothing, want the pod's name")
    named = {"namespace": "default", **metadata, "uid": "what-if"}
    if document.get("kind") == "Pod":
        return {**document, "metadata": named}
    template = (document.get("spec") or {}).get("template") if isinstance(document.get("spec"), dict) else None
    if not isinstance(template, dict):
        raise ValueError(f"{source}: kind: got {document.get('kind')}, want a Pod or a workload with spec.template")
    own = template.get("metadata") or {}
    return {**template, "metadata": {**own, **{key: named[key] for key in ("name", "namespace", "uid")}}}


def explain_pod(pod: PodInfo, snapshot: Path, form: str) -> str:
    """The decision on all nodes of the snapshot, as `leadsman explain` shows one. ValueError.

    What kube-scheduler itself asks of a node is not part of it.
    """
    try:
        read = read_snapshot(snapshot.read_bytes())
    except (BadSnapshot, OSError) as error:
        raise ValueError(f"{snapshot}: {error}") from error
    inputs = replace(read.inputs, estimates=EstimatesOnDemand(read.inputs))
    decision = decide(pod, sorted(read.cluster.nodes), inputs)
    explanation = explain.explain(decision, inputs)
    if form in ("json", "yaml"):
        return output.document(explanation, form)
    return explain_text.format_explanation(explanation)
