"""Bodies of pods that do nothing: a placeholder requests room on one node, another one keeps images there.

Pod Security: restricted.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from leadsman.cluster.constraints import Toleration
from leadsman.cluster.resources import Resources
from leadsman.kube.names import (
    PLACEHOLDER_LABEL,
    PLACEHOLDER_NAMESPACE,
    PLACEHOLDER_PRIORITY_CLASS,
    WARM_IMAGES_LABEL,
)
from leadsman.planning.backups.placeholders import LEAST_MEMORY_BYTES, CreatePlaceholder, node_label
from leadsman.planning.backups.warm_images import KeepImages

CONTAINER = "hold"
GRACE_SECONDS = 1

NEEDS_LIMITS = ("hugepages-",)


class PlaceholderSettings(Struct, frozen=True):
    """image: any that ends on SIGTERM and does nothing. scheduler: its name in Kubernetes."""

    image: str = "registry.k8s.io/pause:3.10"
    scheduler: str = "default-scheduler"


def placeholder_body(action: CreatePlaceholder, settings: PlaceholderSettings) -> dict[str, Any]:
    """The pod to create. kube-scheduler places it: only so it sees that there is room."""
    requests = resource_list(action.requests)
    limits = {name: amount for name, amount in requests.items() if "/" in name or name.startswith(NEEDS_LIMITS)}
    name_is_node = {"key": "metadata.name", "operator": "In", "values": [action.node]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "placeholder-",
            "namespace": PLACEHOLDER_NAMESPACE,
            "labels": {PLACEHOLDER_LABEL: node_label(action.node), "app.kubernetes.io/part-of": "leadsman"},
        },
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchFields": [name_is_node]}]
                    }
                }
            },
            "tolerations": [_toleration(each) for each in action.tolerations],
            "priorityClassName": PLACEHOLDER_PRIORITY_CLASS,
            "schedulerName": settings.scheduler,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": CONTAINER,
                    "image": settings.image,
                    "resources": {"requests": requests, "limits": limits},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def image_keeper_body(action: KeepImages, settings: PlaceholderSettings) -> dict[str, Any]:
    """The pod to create, which mounts each image. Its name says what it keeps, so that there is never a second one."""
    no_room = CreatePlaceholder(action.node, Resources(0, LEAST_MEMORY_BYTES, 1), action.tolerations, "")
    body = placeholder_body(no_room, settings)
    labels = {WARM_IMAGES_LABEL: action.key, "app.kubernetes.io/part-of": "leadsman"}
    metadata = {"name": f"images-{action.key}", "namespace": PLACEHOLDER_NAMESPACE, "labels": labels}
    names = {f"image-{number}": image for number, image in enumerate(action.images)}
    volumes = [
        {"name": name, "image": {"reference": image, "pullPolicy": "IfNotPresent"}} for name, image in names.items()
    ]
    mounts = [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in names]
    [container] = body["spec"]["containers"]
    spec = {**body["spec"], "volumes": volumes, "containers": [{**container, "volumeMounts": mounts}]}
    return {**body, "metadata": metadata, "spec": spec}


def resize_body(requests: Resources) -> dict[str, Any]:
    """A strategic merge patch of pods/resize."""
    amounts = {"cpu": f"{requests.cpu_millis}m", "memory": str(requests.memory_bytes)}
    return {"spec": {"containers": [{"name": CONTAINER, "resources": {"requests": amounts}}]}}


def resource_list(requests: Resources) -> Mapping[str, str]:
    """As the API has it. The pod's own slot is not a request."""
    named = {"cpu": f"{requests.cpu_millis}m", "memory": str(requests.memory_bytes)}
    return {**named, **{name: str(amount) for name, amount in requests.extended.items()}}


def _toleration(toleration: Toleration) -> dict[str, str]:
    fields = {
        "key": toleration.key,
        "operator": toleration.operator or "Equal",
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: value for name, value in fields.items() if value}
