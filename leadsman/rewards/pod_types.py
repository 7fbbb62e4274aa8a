"""Assigns pods to types: label `podtype`, else `app`, else `name`, else the owner's name.

The part of an owner's name that changes with each rollout or run is cut off, so that what was learned about the last
one counts for the next. Types are the cluster's, whatever the namespace, as kubeRL's are.
"""

import re
from collections.abc import Mapping

from leadsman.kube.names import CRON_JOB_TIME, POD_TEMPLATE_HASH_LABEL, TYPE_LABELS

_RUN = re.compile(f"-{CRON_JOB_TIME}")


def pod_type(labels: Mapping[str, str], owner: str, owner_kind: str) -> str:
    """Returns the type of a pod; "" for one without any name, of which no rewards are kept.

    owner, owner_kind: name and kind of its controller, or of the pod itself (leadsman.kube.objects.pod_owner).
    """
    named = (labels[label] for label in TYPE_LABELS if labels.get(label))
    return next(named, "") or _stable_owner_name(owner, owner_kind, labels.get(POD_TEMPLATE_HASH_LABEL, ""))


def _stable_owner_name(owner: str, kind: str, template_hash: str) -> str:
    """Returns the owner's name without the part that changes with each rollout or run."""
    if kind == "ReplicaSet" and template_hash:
        return owner.removesuffix(f"-{template_hash}")
    run = _RUN.search(owner) if kind == "Job" else None
    return owner[: run.start()] if run and run.end() == len(owner) else owner
