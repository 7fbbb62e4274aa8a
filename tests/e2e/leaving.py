"""What an installation leaves behind, found by comparison with what there was before it."""

from tests.e2e.cluster import Cluster
from tests.e2e.rollout import Rollout

_EACH = '{range .items[*]}{.kind}{"/"}{.metadata.namespace}{"/"}{.metadata.name}{"\\n"}{end}'
_PASSING = ("Event/", "EndpointSlice/", "Endpoints/", "Pod/", "ControllerRevision/")
"""Kinds that come and go by themselves, or whose garbage collection the controller-manager takes its time for."""


def everything(cluster: Cluster) -> frozenset[str]:
    """Objects as kind/namespace/name, and of each node the keys of labels and annotations and its taints."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    listable = ",".join(kind for kind in kinds if not kind.startswith("events"))
    objects = cluster.kubectl("get", listable, "-A", "--ignore-not-found", "-o", f"jsonpath={_EACH}").split("\n")
    found = {each for each in objects if each and not each.startswith(_PASSING)}
    for node in cluster.api.call("GET", "/api/v1/nodes")["items"]:
        meta, name = node["metadata"], node["metadata"]["name"]
        found |= {f"node {name}: label {key}" for key in meta.get("labels", {})}
        found |= {f"node {name}: annotation {key}" for key in meta.get("annotations", {})}
        found |= {f"node {name}: taint {each['key']}" for each in node["spec"].get("taints", [])}
        found |= {f"node {name}: condition {each['type']}" for each in node["status"].get("conditions", [])}
    return frozenset(found)


def uninstall(cluster: Cluster, rollout: Rollout, before: frozenset[str]) -> list[str]:
    """Removes Leadsman and returns what it leaves behind."""
    rollout.remove()
    return sorted(everything(cluster) - before)
