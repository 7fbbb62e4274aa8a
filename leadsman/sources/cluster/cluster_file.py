"""Reads a cluster from what kubectl prints, for work without an API server.

    kubectl get nodes,pods,namespaces,poddisruptionbudgets,resourcequotas,persistentvolumes,persistentvolumeclaims,\\
storageclasses,csinodes --all-namespaces -o json
"""

from collections import defaultdict
from typing import Any

import msgspec
from msgspec import Raw, Struct

from leadsman.cluster.model import Cluster
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.runtime.decode_errors import UNREADABLE, explain, explain_syntax
from leadsman.sources.cluster.cluster_assembly import OBJECT_TYPES, ClusterAssembly


class BadClusterFile(ValueError):
    """The text is not a list of Kubernetes objects. Says which item, what it is and what is allowed."""


_LIST_TEXT = "a List of Kubernetes objects as `kubectl get -o json` prints it"


class _Kind(Struct):
    kind: str = ""


class _List(Struct):
    items: list[Raw]


def read_cluster(text: bytes) -> Cluster:
    """The cluster of a List of objects, in JSON. Objects of kinds that the model has no place for are left out.

    BadClusterFile when the text is not such a list, or one of its objects cannot be read.
    """
    try:
        items = msgspec.json.decode(text, type=_List).items
    except msgspec.ValidationError as error:
        raise BadClusterFile(f"not {_LIST_TEXT}: {explain(error)}") from error
    except UNREADABLE as error:
        raise BadClusterFile(f"{explain_syntax(error, text)}; must be {_LIST_TEXT}") from error
    by_kind: dict[str, list[Any]] = defaultdict(list)
    for number, item in enumerate(items):
        kind = _decoded(item, _Kind, number).kind
        if kind in OBJECT_TYPES:
            by_kind[kind].append(_decoded(item, OBJECT_TYPES[kind], number))
    assembly = ClusterAssembly()
    for kind, objects in by_kind.items():
        assembly.add(kind, objects)
    return assembly.cluster


def _decoded(item: Raw, kind: type, number: int) -> Any:
    try:
        return decode_json(item, kind)
    except MalformedResponse as error:
        raise BadClusterFile(f"items[{number}]: {error}") from error
