"""What kubectl prints becomes a Cluster."""

import json
from typing import Any

import pytest

from leadsman.cluster.constraints import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    Requirement,
    Taint,
    Toleration,
    TopologySpread,
)
from leadsman.cluster.model import Claim, QuotaScope, StorageClass, Volume
from leadsman.cluster.resources import Resources
from leadsman.sources.cluster.cluster_follower import BadClusterFile, read_cluster

GPU, DRIVER, ZONE = "example.com/gpu", "csi.example.com", "topology.kubernetes.io/zone"
APP = LabelSelector((Requirement("app", Operator.IN, ("web",)),))


def meta(name, namespace="default", **more):
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "managedFields": [{"a": 1}], **more}


def item(kind, name, spec=None, status=None, namespace="default", **metadata):
    return {"kind": kind, "metadata": meta(name, namespace, **metadata), "spec": spec or {}, "status": status or {}}


def pod(name="p", spec=None, status=None, **metadata):
    spec = {"containers": [{"name": "main", "image": "x", "env": [{"name": "A"}]}], "nodeName": "a", **(spec or {})}
    return item("Pod", name, spec, status or {"phase": "Running"}, **metadata)


def node(ready="True", spec=None, allocatable=None, **metadata):
    status = {"allocatable": allocatable or {}, "conditions": [{"type": "Ready", "status": ready}]}
    return item("Node", "a", spec, status, "", **metadata)


def read(*items):
    return read_cluster(json.dumps({"kind": "List", "items": items}).encode())


def only_pod(**fields):
    [one] = read(pod(**fields)).pods.values()
    return one


def test_a_node_has_what_its_csi_node_says_too() -> None:
    labels, annotations = {ZONE: "z", "rack": "r"}, {"leadsman.dev/x": "1", "foreign": "2"}
    spec = {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01"}]}
    allocatable = {"cpu": "3800m", "memory": "1Gi", "pods": "110", GPU: "2"}
    one = node(spec=spec, allocatable=allocatable, labels=labels, annotations=annotations)
    drivers = [{"name": DRIVER, "allocatable": {"count": 8}}, {"name": "unlimited", "allocatable": None}]
    csi_node = item("CSINode", "a", {"drivers": drivers}, namespace="")
    for items in ([one, csi_node], [csi_node, one]):
        a = read(*items).nodes["a"]
        assert (a.uid, a.labels, a.unschedulable, a.ready) == ("uid-a", labels, True, True)
        assert a.allocatable == Resources(3800, 1 << 30, 110, {GPU: 2})
        assert a.taints == (Taint("k", "", "NoExecute"),)
        assert a.annotations == {"leadsman.dev/x": "1"}
        assert a.attach_limits == {DRIVER: 8}


@pytest.mark.parametrize(("status", "ready"), [("False", False), ("Unknown", None)])
def test_a_node_that_is_unknown_is_not_unready(status: str, ready: bool | None) -> None:
    assert read(node(status)).nodes["a"].ready is ready


def test_whose_pod_it_is_and_what_happens_to_it() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "u", "controller": True}
    labels = {"app": "web", "pod-template-hash": "5d", "delay_db": "5"}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "ephemeral": {}}]
    spec: dict[str, Any] = {"nodeName": None, "activeDeadlineSeconds": 5, "volumes": volumes}
    spec |= {"schedulingGates": [{"name": "g"}], "priority": 7, "priorityClassName": "high"}
    status = {"phase": "Pending", "nominatedNodeName": "b", "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"ownerReferences": [owner], "labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    one = only_pod(spec=spec, status=status, **metadata)
    assert (one.workload, one.owner_kind, one.owner_uid) == ("deployment/web", "ReplicaSet", "u")
    assert (one.labels, one.priority, one.priority_class) == (labels, 7, "high")
    assert (one.node, one.phase, one.nominated_node) == ("", "Pending", "b")
    assert (one.ready, one.terminating, one.gated, one.has_deadline) == (True, True, True, True)
    assert (one.claims, one.local_volumes) == (("data", "p-e"), False)
    assert only_pod(spec={"volumes": [{"name": "d", "emptyDir": {}}]}).local_volumes


def test_requests_of_containers_and_what_the_kubelet_holds_for_them() -> None:
    resources = {"requests": {"cpu": "100m", "memory": "1Ki", GPU: "1"}}
    init = [{"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}]
    spec = {"containers": [{"name": "main", "resources": resources}], "initContainers": init, "overhead": {"cpu": "5m"}}
    assert only_pod(spec=spec).requests == Resources(155, 1024, 1, {GPU: 1})
    held = [{"name": "main", "allocatedResources": {"cpu": "300m"}, "resources": {"requests": {"memory": "2Ki"}}}]
    shrinking = {"phase": "Running", "containerStatuses": held}
    assert only_pod(spec=spec, status=shrinking).requests == Resources(355, 2048, 1, {GPU: 1})
    refused = shrinking | {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
    assert only_pod(spec=spec, status=refused).requests == Resources(355, 2048, 1)


def test_a_sidecar_s_devices_are_the_pod_s_and_those_of_a_container_that_ends_are_not() -> None:
    card = {"name": "card", "resources": {"requests": {GPU: "1"}}}
    for more, asked in (({"restartPolicy": "Always"}, 1), ({}, 0)):
        one = only_pod(spec={"containers": [{"name": "main"}], "initContainers": [card | more]})
        assert (one.devices.amount(GPU) if one.devices else 0) == asked


def test_requests_of_the_pod_as_a_whole() -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "1Ki"}}}]
    spec = {"containers": containers, "resources": {"requests": {"cpu": "2"}}}
    assert only_pod(spec=spec).requests == Resources(2000, 1024, 1)


REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def test_constraints_of_a_pod() -> None:
    web = {"matchLabels": {"app": "web"}}
    term = {"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["3"]}]}
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
        "affinity": {
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}, PREFERRED: [{"weight": 1, "preference": {}}]},
            "podAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": web, "namespaceSelector": {}}]},
            "podAntiAffinity": {REQUIRED: [{"topologyKey": "rack", "labelSelector": web}]},
        },
        "topologySpreadConstraints": [
            {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}
            | {"labelSelector": web, "matchLabelKeys": ["tier"], "nodeTaintsPolicy": "Honor"},
            {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": web},
        ],
        "containers": [{"name": "main", "ports": [{"containerPort": 1}, {"hostPort": 80, "hostIP": "10.0.0.1"}]}],
    }
    constraints = only_pod(spec=spec, labels={"tier": "1"}).constraints
    assert constraints.node_selector == (("disk", "ssd"),)
    assert constraints.tolerations == (Toleration("k", "Exists"),)
    assert constraints.node_affinity == (NodeSelectorTerm((Requirement("n", Operator.GT, ("3",)),)),)
    assert constraints.affinity == (PodAffinityTerm(ZONE, APP, (), LabelSelector()),)
    assert constraints.anti_affinity == (PodAffinityTerm("rack", APP, ("default",)),)
    with_tier = LabelSelector((*APP.requirements, Requirement("tier", Operator.IN, ("1",))))
    assert constraints.spread == (TopologySpread(ZONE, 2, with_tier, 3, True, True),)
    assert constraints.host_ports == (HostPort(80, "TCP", "10.0.0.1"),)


def test_a_pod_with_too_many_labels_says_that_some_are_unknown() -> None:
    many = {f"label-{number}": "x" * 60 for number in range(1000)} | {"delay_db": "5"}
    one = only_pod(labels=many)
    assert one.labels == {"delay_db": "5"}
    assert one.labels_cut == 1000


def test_claims_volumes_and_classes() -> None:
    rack = {"key": "rack", "operator": "In", "values": ["1"]}
    late = {"storageClassName": "late", "accessModes": ["ReadWriteOncePod"], "volumeMode": "Block"}
    volume = {
        "capacity": {"storage": "2Ki"},
        "claimRef": {"namespace": "default", "name": "data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rack]}]}},
        "csi": {"driver": DRIVER, "volumeHandle": "h"},
    }
    labels = {"failure-domain.beta.kubernetes.io/zone": "x__y"}
    claim = {"volumeName": "v", "resources": {"requests": {"storage": "1Ki"}}, "selector": {"matchLabels": {"d": "1"}}}
    storage = read(
        item("PersistentVolumeClaim", "data", claim | late),
        item("PersistentVolume", "v", volume | late, namespace="", labels=labels),
        {"kind": "StorageClass", "metadata": meta("late", ""), "provisioner": DRIVER}
        | {"volumeBindingMode": "WaitForFirstConsumer"}
        | {"allowedTopologies": [{"matchLabelExpressions": [{"key": "rack", "values": ["1"]}]}]},
    ).storage
    term = NodeSelectorTerm((Requirement("rack", Operator.IN, ("1",)),))
    modes = ("ReadWriteOncePod",)
    selector = LabelSelector((Requirement("d", Operator.IN, ("1",)),))
    data = Claim("default", "data", "v", "late", modes, 1024, mode="Block", selector=selector)
    assert storage.claims == {("default", "data"): data}
    zones = ((ZONE, ("x", "y")),)
    claimed = ("default", "data")
    made = Volume("v", "late", modes, 2048, claimed, (term,), zones, DRIVER, "h", "Block", labels)
    assert storage.volumes == {"v": made}
    assert storage.classes == {"late": StorageClass("late", True, DRIVER, (term,))}


def test_budgets_quotas_and_namespaces() -> None:
    budget_spec = {"selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    budget_status = {"disruptionsAllowed": 1, "expectedPods": 3, "observedGeneration": 1}
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}
    quota_spec = {
        "hard": {"cpu": "2", "limits.memory": "1Ki", "pods": "5"},
        "scopes": ["NotTerminating"],
        "scopeSelector": {"matchExpressions": [scope]},
    }
    cluster = read(
        item("PodDisruptionBudget", "b", budget_spec, budget_status, generation=2),
        item("ResourceQuota", "q", quota_spec, {"used": {"cpu": "500m", "pods": "1"}}),
        item("Namespace", "default", namespace="", labels={"team": "x"}),
        item("Secret", "ignored"),
    )
    budget = cluster.budgets["default", "b"]
    assert (budget.selector, budget.disruptions_allowed) == (APP, 1)
    assert budget.unhealthy_always
    assert not budget.observed
    quota = cluster.quotas["default", "q"]
    assert quota.hard == {"requests.cpu": 2000, "limits.memory": 1024, "pods": 5}
    assert quota.used == {"requests.cpu": 500, "pods": 1}
    assert quota.scopes == (QuotaScope("NotTerminating"), QuotaScope("PriorityClass", "In", ("a",)))
    assert cluster.namespaces == {"default": {"team": "x"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"items":\n[}', "line 2, column 2: JSON is malformed: .*; must be a List of Kubernetes objects"),
        (b"[]", "not a List of Kubernetes objects"),
        (b'{"kind": "Pod"}', "items"),
        (json.dumps({"items": [pod(), pod(spec={"containers": 3})]}).encode(), r"items\[1\]: .*\$\.spec\.containers"),
        (json.dumps({"items": [node(allocatable={"cpu": "x"})]}).encode(), r"items\[0\]: .*'x' is not a quantity"),
    ],
)
def test_a_bad_file_names_the_item_and_what_is_wrong(text: bytes, said: str) -> None:
    with pytest.raises(BadClusterFile, match=said):
        read_cluster(text)
