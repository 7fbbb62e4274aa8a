"""Reads the pods that may be created from manifests: Pods, and what makes pods from a template.

YAML or JSON, any number of documents a file, Lists too. A set has as many pods of a template as `replicas` says, of a
Job `parallelism`. What only admission would fill in (defaults of a LimitRange, runtime overhead) is not known here, nor
are the claims that a StatefulSet makes for each pod.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from extender.api.what_if import pod_json_of
from extender.body_limits import RequestRefused
from leadsman.cli.yaml_editing import value_at
from leadsman.cluster.model import Cluster
from leadsman.decision import yaml_document
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.planning.capacity.fit_model import PodTemplate
from leadsman.sources.cluster.pod_object import PodObject

MOST_REPLICAS = 100_000

_REPLICAS_FIELD = {
    "Pod": "",
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "ReplicationController": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/"""


class BadPodTemplate(ValueError):
    """A manifest cannot be used; the text names the file, the document, the field and what is allowed."""


def read_templates(files: Sequence[Path], cluster: Cluster) -> list[PodTemplate]:
    """Reads the templates in the order of the files. Raises BadPodTemplate.

    cluster: a priority class has the priority that its pods have there.
    """
    found: dict[str, PodTemplate] = {}
    priorities = {pod.priority_class: pod.priority for pod in cluster.pods.values() if pod.priority_class}
    for file in files:
        for place, manifest in _manifests(file):
            template = _template(manifest, place, _SYSTEM_PRIORITIES | priorities)
            if template.name in found:
                raise BadPodTemplate(f"{place}: {template.name} is there twice; name each once")
            if value_at(manifest, "spec", "volumeClaimTemplates"):
                what = f"whether a node can have the volumes of {template.name} is not counted"
                print(f"{place}: spec.volumeClaimTemplates: {what}", file=sys.stderr)
            found[template.name] = template
    if not found:
        raise BadPodTemplate(f"{', '.join(map(str, files))}: no manifest; write a {_allowed()}")
    return list(found.values())


def _manifests(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        documents = yaml_document.load_all(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadPodTemplate(f"{file}: {error}") from error
    for number, document in enumerate(documents):
        if document is not None:
            yield from _flattened(document, f"{file}: document {number}")


def _flattened(document: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(document, Mapping):
        raise BadPodTemplate(f"{place}: got no object; must be a {_allowed()}")
    if document.get("kind") == "List":
        for number, item in enumerate(document.get("items") or ()):
            yield from _flattened(item, f"{place}, items[{number}]")
    else:
        yield place, document


def _template(manifest: Mapping[str, Any], place: str, priorities: Mapping[str, int]) -> PodTemplate:
    kind = str(manifest.get("kind", ""))
    if kind not in _REPLICAS_FIELD:
        raise BadPodTemplate(f'{place}: got kind "{kind[:63]}"; must be a {_allowed()}')
    name, namespace = value_at(manifest, "metadata", "name"), value_at(manifest, "metadata", "namespace") or "default"
    if not isinstance(name, str) or not name:
        raise BadPodTemplate(f"{place}: metadata.name is missing; name the {kind}")
    if kind != "Pod" and not value_at(manifest, "spec", "template", "spec"):
        raise BadPodTemplate(f"{place}: spec.template.spec is missing; it holds the pod's containers")
    try:
        pod = decode_json(pod_json_of(manifest), PodObject).model
    except (RequestRefused, MalformedResponse) as error:
        raise BadPodTemplate(f"{place}: {error}") from error
    workload = f"{kind.lower()}/{name}"
    pod = replace(pod, uid=f"new {namespace}/{name}", priority=priorities.get(pod.priority_class, pod.priority))
    if kind != "Pod":
        owner = "ReplicaSet" if kind == "Deployment" else kind
        pod = replace(pod, workload=workload, owner_kind=owner, owner_uid=f"new {workload}")
    return PodTemplate(f"{namespace}/{workload}", pod, _replicas(manifest, _REPLICAS_FIELD[kind], place))


def _replicas(manifest: Mapping[str, Any], field: str, place: str) -> int:
    given = value_at(manifest, "spec", field) if field else None
    replicas = 1 if given is None else given
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= MOST_REPLICAS:
        raise BadPodTemplate(f"{place}: spec.{field}: got {replicas!r}; must be 1 to {MOST_REPLICAS}")
    return replicas


def _allowed() -> str:
    return ", ".join(_REPLICAS_FIELD)
