"""Reads the files of kubernetes-edge-scheduler: a delay matrix, its metadata, nodes, and Deployments as pods to place.

    matrix    what numpy.loadtxt reads, in ms; metadata  {"node": row}
    nodes     {"name": "edge-1", "allocatable_memory": "16Gi", "cloud": false}: one, a list, or a folder of such files
    pods      Deployments in YAML: one file, of any number of documents, or a folder

Memory is all that they count: other requests are left out, and a node has kubelet's 110 pod slots.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from leadsman.cluster.model import Cluster, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision import yaml_document
from leadsman.kube.decoding import strip_nulls
from leadsman.kube.names import ROLE_LABEL
from leadsman.kube.quantity import BadQuantity
from leadsman.runtime import decode_errors
from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.sources.cluster.pod_object import TemplateFields
from leadsman.sources.delay.matrix import BadMatrix, DelayMatrix, parse_matrix

MAX_REPLICAS = 10_000

_POD_SLOTS = 110
"""https://kubernetes.io/docs/setup/best-practices/cluster-large/"""


class BadEdgeFile(ValueError):
    """A file cannot be used; the text names the file, the place in it, the value and what is allowed."""


class _Node(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    allocatable_memory: str
    cloud: bool = False


class _Metadata(Struct, frozen=True):
    name: str = ""
    namespace: str = "default"
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class _Template(Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: TemplateFields = TemplateFields()


class _DeploymentSpec(Struct, frozen=True):
    template: _Template
    replicas: int = 1


class _Deployment(Struct, frozen=True):
    metadata: _Metadata
    spec: _DeploymentSpec
    kind: str = "Deployment"


def read_delays(matrix: Path, metadata: Path) -> DelayMatrix:
    """Reads the delays from both files. BadEdgeFile names the file, row and column."""
    texts = [_text(file) for file in (matrix, metadata)]
    try:
        return parse_matrix(*texts)
    except BadMatrix as error:
        file = metadata if str(error).startswith("metadata") else matrix
        raise BadEdgeFile(f"{file}: {error}") from error


def read_edge_cluster(nodes: Path, pods: Path) -> Cluster:
    """Reads the nodes, and the pods that wait for one. Raises BadEdgeFile."""
    made: dict[str, ClusterNode] = {}
    for file in _files(nodes, ("json",)):
        for node in _nodes(file):
            if node.name in made:
                raise BadEdgeFile(f'{file}: node "{node.name}" is there twice; name each node once')
            made[node.name] = node
    waiting: dict[str, ClusterPod] = {}
    for file in _files(pods, ("yaml", "yml", "json")):
        for pod in _pods(file):
            if pod.uid in waiting:
                raise BadEdgeFile(f"{file}: Deployment of pod {pod.uid} is there twice; name each Deployment once")
            waiting[pod.uid] = pod
    return cluster_of(made.values(), waiting.values())


def _files(path: Path, suffixes: Sequence[str]) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.iterdir() if each.suffix[1:] in suffixes)
    if not files:
        raise BadEdgeFile(f"{path}: the folder has no file *.{' or *.'.join(suffixes)}")
    return files


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadEdgeFile(f"{file}: {error}") from error


def _nodes(file: Path) -> Iterator[ClusterNode]:
    text = _text(file)  # Read once: it may be a pipe.
    try:
        plain = msgspec.json.decode(text)
    except UNREADABLE as error:
        where = decode_errors.explain_syntax(error, text.encode())
        raise BadEdgeFile(f"{file}: {where}; must be a node or a list of nodes in JSON") from error
    for number, item in enumerate(plain if isinstance(plain, list) else [plain]):
        place = f"{file}: node {number}"
        node = _converted(item, _Node, place)
        labels = {"kubernetes.io/hostname": node.name} | ({ROLE_LABEL: "cloud"} if node.cloud else {})
        memory = _resources({"memory": node.allocatable_memory}, f"{place}, allocatable_memory").memory_bytes
        size = Resources(memory_bytes=memory, pods=_POD_SLOTS)
        yield ClusterNode(node.name, uid=node.name, labels=labels, allocatable=size, ready=True)


def _pods(file: Path) -> Iterator[ClusterPod]:
    try:
        documents = yaml_document.load_all(_text(file))
    except yaml_document.BadDocument as error:
        raise BadEdgeFile(f"{file}: {error}") from error
    for number, document in enumerate(documents):
        if document is None:
            continue
        place = f"{file}: document {number}"
        deployment = _converted(document, _Deployment, place)
        if deployment.kind != "Deployment":
            raise BadEdgeFile(f'{place}: got kind "{deployment.kind[:63]}"; must be Deployment')
        if not deployment.metadata.name:
            raise BadEdgeFile(f"{place}: metadata.name is missing; name the Deployment")
        if not 0 <= deployment.spec.replicas <= MAX_REPLICAS:
            raise BadEdgeFile(f"{place}: got {deployment.spec.replicas} replicas; must be 0 to {MAX_REPLICAS}")
        yield from _replicas(deployment, place)


def _replicas(deployment: _Deployment, place: str) -> Iterator[ClusterPod]:
    meta, template = deployment.metadata, deployment.spec.template
    try:
        memory = template.spec.requests({}).memory_bytes
    except BadQuantity as error:
        raise BadEdgeFile(f"{place}: {error}") from error
    for number in range(deployment.spec.replicas):
        name = f"{meta.name}-{number}"
        yield ClusterPod(
            uid=f"{meta.namespace}/{name}",
            namespace=meta.namespace,
            name=name,
            workload=f"deployment/{meta.name}",
            owner_kind="ReplicaSet",
            owner_uid=f"{meta.namespace}/{meta.name}",
            requests=Resources(memory_bytes=memory, pods=1),
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            constraints=template.spec.constraints(meta.namespace, template.metadata.labels),
        )


def _converted(plain: Any, kind: type[Any], place: str) -> Any:
    try:
        plain = strip_nulls(plain)
        return msgspec.convert(plain, kind)
    except RecursionError as error:
        raise BadEdgeFile(f"{place}: nested too deep") from error
    except msgspec.ValidationError as error:
        raise BadEdgeFile(f"{place}: {decode_errors.explain_value(error, plain)}") from error


def _resources(quantities: Mapping[str, str], place: str) -> Resources:
    try:
        return Resources.of(quantities)
    except BadQuantity as error:
        raise BadEdgeFile(f"{place}: {error}") from error
