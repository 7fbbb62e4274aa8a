"""Reads the pods that may be created from manifests: Pods, and what makes pods from a template.

YAML or JSON, any number of documents a file, Lists too. A set has as many pods of a template as `replicas` says, of a
Job `parallelism`. What only admission would fill in (defaults of a LimitRange, runtime overhead) is not known here.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

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
    """A manifest cannot be used. Names the file, the document, the field and what is allowed."""


class _Manifest(Struct):
    kind: str = ""
    metadata: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    items: list[Any] = []


def read_templates(files: Sequence[Path], cluster: Cluster) -> list[PodTemplate]:
    """The templates in the order of the files. BadPodTemplate.

    cluster: a priority class has the priority that its pods have there.
    """
    found: dict[str, PodTemplate] = {}
    priorities = {pod.priority_class: pod.priority for pod in cluster.pods.values() if pod.priority_class}
    for file in files:
        for place, manifest in _manifests(file):
            template = _template(manifest, place, _SYSTEM_PRIORITIES | priorities)
            if template.name in found:
                raise BadPodTemplate(f"{place}: {template.name} is there twice; name each once")
            found[template.name] = template
    if not found:
        raise BadPodTemplate(f"{', '.join(map(str, files))}: no manifest; write a {_allowed()}")
    return list(found.values())


def _manifests(file: Path) -> Iterator[tuple[str, _Manifest]]:
    try:
        documents = list(yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml_document.StrictLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise BadPodTemplate(f"{file}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadPodTemplate(f"{file}: {yaml_document.error_text(error)}") from error
    for number, document in enumerate(documents):
        if document is not None:
            yield from _flattened(document, f"{file}: document {number}")


def _flattened(document: Any, place: str) -> Iterator[tuple[str, _Manifest]]:
    try:
        manifest = msgspec.convert(document, _Manifest)
    except msgspec.ValidationError as error:
        raise BadPodTemplate(f"{place}: {error}") from error
    if manifest.kind == "List":
        for number, item in enumerate(manifest.items):
            yield from _flattened(item, f"{place}, items[{number}]")
    else:
        yield place, manifest


def _template(manifest: _Manifest, place: str, priorities: Mapping[str, int]) -> PodTemplate:
    if manifest.kind not in _REPLICAS_FIELD:
        raise BadPodTemplate(f'{place}: got kind "{manifest.kind[:63]}"; must be a {_allowed()}')
    name, namespace = manifest.metadata.get("name"), manifest.metadata.get("namespace", "default")
    if not isinstance(name, str) or not name:
        raise BadPodTemplate(f"{place}: metadata.name is missing; name the {manifest.kind}")
    workload = f"{manifest.kind.lower()}/{name}"
    pod = _pod(manifest, place, f"{namespace}/{name}")
    if pod.priority_class in priorities:
        pod = replace(pod, priority=priorities[pod.priority_class])
    if manifest.kind != "Pod":
        owner = "ReplicaSet" if manifest.kind == "Deployment" else manifest.kind
        pod = replace(pod, workload=workload, owner_kind=owner, owner_uid=f"new {workload}")
    return PodTemplate(f"{namespace}/{workload}", pod, _replicas(manifest, place))


def _pod(manifest: _Manifest, place: str, uid: str) -> Any:
    template = {"metadata": manifest.metadata, "spec": manifest.spec}
    if manifest.kind != "Pod":
        template = manifest.spec.get("template", {})
    if not isinstance(template, dict) or not template.get("spec"):
        field = "spec" if manifest.kind == "Pod" else "spec.template.spec"
        raise BadPodTemplate(f"{place}: {field} is missing; it holds the pod's containers")
    own = template.get("metadata") or {}
    metadata = {each: own[each] for each in ("labels", "annotations") if own.get(each)}
    metadata |= {"name": manifest.metadata["name"], "namespace": uid.partition("/")[0], "uid": f"new {uid}"}
    try:
        return decode_json(msgspec.json.encode({"metadata": metadata, "spec": template["spec"]}), PodObject).model
    except (MalformedResponse, msgspec.EncodeError, TypeError) as error:
        raise BadPodTemplate(f"{place}: {error}") from error


def _replicas(manifest: _Manifest, place: str) -> int:
    field = _REPLICAS_FIELD[manifest.kind]
    replicas = manifest.spec.get(field, 1) if field else 1
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= MOST_REPLICAS:
        raise BadPodTemplate(f"{place}: spec.{field}: got {replicas!r}; must be 1 to {MOST_REPLICAS}")
    return replicas


def _allowed() -> str:
    return ", ".join(_REPLICAS_FIELD)
