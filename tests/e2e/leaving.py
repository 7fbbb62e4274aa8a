"""What is in a cluster, to see by comparison what an installation leaves behind."""

from collections.abc import Sequence

from tests.e2e.cluster import Cluster

_EACH = '{range .items[*]}{.kind}{"/"}{.metadata.namespace}{"/"}{.metadata.name}{"\\n"}{end}'
_PASSING = ("Event/", "EndpointSlice/", "Endpoints/", "Pod/", "ControllerRevision/", "Lease/kube-node-lease/")
"""Come and go by themselves, as kubelets' Leases do, or the controller-manager takes its time to collect them."""


def kinds(cluster: Cluster) -> Sequence[str]:
    """All that can be listed, but Events."""
    listable = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    return [kind for kind in listable if not kind.startswith("events")]


def everything(cluster: Cluster) -> frozenset[str]:
    """Objects as kind/namespace/name, and of each node the keys of labels and annotations and its taints."""
    listed = ",".join(kinds(cluster))
    objects = cluster.kubectl("get", listed, "-A", "--ignore-not-found", "-o", f"jsonpath={_EACH}").split("\n")
    found = {each for each in objects if each and not each.startswith(_PASSING)}
    for node in cluster.api.call("GET", "/api/v1/nodes")["items"]:
        meta, name = node["metadata"], node["metadata"]["name"]
        found |= {f"node {name}: label {key}" for key in meta.get("labels", {})}
        found |= {f"node {name}: annotation {key}" for key in meta.get("annotations", {})}
        found |= {f"node {name}: taint {each['key']}" for each in node["spec"].get("taints", [])}
        found |= {f"node {name}: condition {each['type']}" for each in node["status"].get("conditions", [])}
    return frozenset(found)
