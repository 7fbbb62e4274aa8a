"""Which objects of a cluster are Leadsman's, and what on a node is. No I/O."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from leadsman.kube.names import (
    DOMAIN,
    OWNERSHIP_ANNOTATION,
    PLACEHOLDER_LABEL,
    PLACEHOLDER_NAMESPACE,
    REPORTING_CONTROLLER,
    UNREACHABLE_CONDITION,
)
from leadsman.planning.labels.label_plan import BadOwnership, NodeView, parse_ownership
from leadsman.planning.recovery_plan import UNREACHABLE_TAINT
from leadsman.published.backups import BACKUPS
from leadsman.published.move_plan import MOVE_PLAN
from leadsman.published.moves import MOVES
from leadsman.published.self_healing import SELF_HEALING

PART_OF_LABEL, PART_OF = "app.kubernetes.io/part-of", "leadsman"
"""On every object of the manifests, of the chart and of `leadsman certs`."""

MANAGER_LABEL, KUSTOMIZE = "app.kubernetes.io/managed-by", "kustomize"

WRITTEN_BY_PROCESSES = {
    ("Lease", "leadsman-controller"),
    ("Lease", "leadsman-scheduler"),
    *(("ConfigMap", each.config_map) for each in (SELF_HEALING, BACKUPS, MOVES, MOVE_PLAN)),
    ("Secret", "leadsman-ca"),
    ("Secret", "leadsman-etcd-ca"),
    ("Secret", "leadsman-etcd-issuer-tls"),
    ("Secret", "leadsman-etcd-root"),
    ("Secret", "leadsman-etcd-tls"),
    ("Secret", "leadsman-etcd-trust"),
    ("Secret", "leadsman-extender-tls"),
    ("Secret", "leadsman-scheduler-tls"),
}
"""(kind, name) of what controllers, cert-manager and second schedulers write, without our label."""

TASPOLICY_KINDS = ("CustomResourceDefinition", "TASPolicy")
"""Others may use these too."""

_FIRST = ("DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob")
_LAST = ("Namespace", "CustomResourceDefinition")


class Leftover(Struct, frozen=True):
    """An object that is ours.

    because: by what it was recognised.
    manager: the tool that deployed it, by its label; "": none says so.
    path: of the API, to delete it.
    """

    kind: str
    namespace: str
    name: str
    because: str
    path: str
    manager: str = ""


class NodeChange(Struct, frozen=True):
    """What is taken off a node.

    parts: each as an operator reads it.
    labels, annotations: keys.
    taints: those that stay; None: all do.
    condition: whether ours is there.
    resource_version: at which this was read.
    """

    node: str
    parts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    taints: tuple[dict[str, Any], ...] | None = None
    condition: bool = False
    resource_version: str = ""


def why_ours(kind: str, item: Mapping[str, Any]) -> str:
    """By what the object is Leadsman's; "": it is not, or goes with the one that controls it."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return ""
    if labels.get(PART_OF_LABEL) == PART_OF:
        return f"label {PART_OF_LABEL}={PART_OF}"
    if (kind, metadata["name"]) in WRITTEN_BY_PROCESSES:
        return "its name"
    if kind == "Namespace" and metadata["name"] == PLACEHOLDER_NAMESPACE:
        return "its name"
    if kind == "Pod" and metadata.get("namespace") == PLACEHOLDER_NAMESPACE and PLACEHOLDER_LABEL in labels:
        return f"label {PLACEHOLDER_LABEL}"
    if kind == "Event" and REPORTING_CONTROLLER in (item.get("reportingComponent"), item.get("reportingController")):
        return "reported by Leadsman's controller"
    return ""


def node_change(node: Mapping[str, Any]) -> NodeChange | None:
    """What of Leadsman is on this Node object; None: nothing.

    Labels are those that the annotation of the controller names and that the named policy could have written.
    """
    metadata = node["metadata"]
    present = metadata.get("annotations") or {}
    annotations = tuple(sorted(key for key in present if key.startswith(f"{DOMAIN}/")))
    labels = tuple(sorted(key for key in _owned_labels(metadata) if key in (metadata.get("labels") or {})))
    labels += tuple(sorted(key for key in metadata.get("labels") or {} if key.startswith(f"{DOMAIN}/")))
    all_taints = tuple(node.get("spec", {}).get("taints") or ())
    others = tuple(taint for taint in all_taints if taint["key"] != UNREACHABLE_TAINT)
    conditions = node.get("status", {}).get("conditions") or ()
    condition = any(each["type"] == UNREACHABLE_CONDITION for each in conditions)
    parts = [f"annotation {key}" for key in annotations] + [f"label {key}" for key in labels]
    parts += [f"taint {UNREACHABLE_TAINT}"] if others != all_taints else []
    parts += [f"condition {UNREACHABLE_CONDITION}"] if condition else []
    if not parts:
        return None
    return NodeChange(
        node=metadata["name"],
        parts=tuple(parts),
        labels=labels,
        annotations=annotations,
        taints=others if others != all_taints else None,
        condition=condition,
        resource_version=metadata.get("resourceVersion", ""),
    )


def _owned_labels(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """A record that nobody can read names none; the annotation goes all the same."""
    annotations = metadata.get("annotations") or {}
    if OWNERSHIP_ANNOTATION not in annotations:
        return ()
    try:
        return tuple(parse_ownership(NodeView(name=metadata["name"], annotations=annotations)))
    except BadOwnership:
        return ()


def deletion_rank(each: Leftover) -> tuple[int, str, str]:
    """What writes goes first, what holds others last."""
    rank = 0 if each.kind in _FIRST else 2 if each.kind in _LAST else 1
    return rank, each.kind, each.name
