"""Reads and writes which labels of a node are ours: an annotation with label key → namespace/name of its policy.

Only a recorded label is ever changed or removed, and only if its key is one that the named policy could have written,
so that a forged annotation does not make us remove other labels.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX, PolicyKey
from leadsman.kube.names import OWNERSHIP_ANNOTATION
from leadsman.runtime.decode_errors import UNREADABLE


class BadOwnership(ValueError):
    """The annotation cannot be parsed. The node is left alone until the annotation is fixed or removed."""


class NodeView(Struct, frozen=True):
    """What the label plan uses of a Node object.

    resource_version: the patch requires that it is still this one.
    excess: which of the node's labels and annotations are missing here, because there are too many; "": none is.
    """

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    resource_version: str = ""
    excess: str = ""


OwnedLabels = Mapping[str, PolicyKey]
"""Label key → its policy."""

_decode = msgspec.json.Decoder(dict[str, str]).decode


def parse_ownership(node: NodeView) -> OwnedLabels:
    """The labels that the node's annotation records as ours. Raises BadOwnership."""
    try:
        owners = _decode(node.annotations.get(OWNERSHIP_ANNOTATION, "{}"))
        recorded = {key: PolicyKey(*owner.split("/", 1)) for key, owner in owners.items()}
    except (*UNREADABLE, TypeError) as error:
        raise BadOwnership(
            f"annotation {OWNERSHIP_ANNOTATION} of node {node.name} cannot be parsed; fix or remove it: {error}"
        ) from error
    return {key: owner for key, owner in recorded.items() if writable_by(owner, key)}


def format_ownership(owned: OwnedLabels) -> str | None:
    """The annotation's value; None: it is removed."""
    return msgspec.json.encode({key: str(owned[key]) for key in sorted(owned)}).decode() if owned else None


def mark_key(policy: PolicyKey) -> str:
    """The key of the label that the policy's deschedule strategy sets."""
    return policy.name


def label_key(policy: PolicyKey, key: str) -> str:
    """The key of a label that the policy's labeling strategy sets."""
    return f"{LABEL_PREFIX}{policy.name}/{key}"


def writable_by(policy: PolicyKey, key: str) -> bool:
    """Whether the policy could have written a label with this key."""
    return key == mark_key(policy) or key.startswith(label_key(policy, ""))
