"""Small random clusters as objects of the API: everything on which kube-scheduler's required plugins turn."""

from random import Random
from typing import Any

Object = dict[str, Any]

APPS = ("web", "db", "cache")
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"
KEYS = (ZONE, RACK, HOST)
NAMESPACES = ("default", "other")
TAINTS = (("dedicated", "gpu", "NoSchedule"), ("drain", "", "NoExecute"), ("old", "yes", "PreferNoSchedule"))
DRIVER = "csi.example.com"
GPU = "example.com/gpu"


def node(rng: Random, number: int) -> Object:
    name = f"n{number}"
    labels = {HOST: name, "disk": rng.choice(("ssd", "hdd")), "slots": str(rng.randint(1, 9))}
    labels |= {ZONE: rng.choice("abc")} if rng.random() < 0.9 else {}
    labels |= {RACK: rng.choice("xyz")} if rng.random() < 0.9 else {}
    taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in TAINTS if rng.random() < 0.15]
    allocatable = {
        "cpu": rng.choice(("900m", "2", "4")),
        "memory": rng.choice(("1Gi", "2Gi")),
        "pods": str(rng.randint(3, 8)),
        "ephemeral-storage": "10Gi",
        GPU: str(rng.randint(0, 2)),
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": rng.random() < 0.1},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def csi_node(rng: Random, name: str, uid: str) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": rng.randint(1, 2)}}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"drivers": [driver]}}


def volume(rng: Random, name: str) -> Object:
    labels = {ZONE: rng.choice(("a", "b", "a__c"))} if rng.random() < 0.3 else {}
    racks = {"key": RACK, "operator": "In", "values": rng.sample("xyz", 2)}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [racks]}]}} if rng.random() < 0.4 else None
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **({"nodeAffinity": affinity} if affinity else {}),
        },
    }


def claim(rng: Random, name: str, volume: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "late"}
    bound = {"volumeName": volume} if volume else {}
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec | bound}


def pod(rng: Random, name: str, claims: tuple[str, ...] = (), on: str = "") -> Object:
    labels = {"app": rng.choice(APPS), "tier": rng.choice("12")}
    volumes = [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": one}} for number, one in enumerate(claims)]
    spec = {
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(rng, "main"), *([_container(rng, "side")] if rng.random() < 0.2 else [])],
        "initContainers": [_container(rng, "first", ports=False)] if rng.random() < 0.3 else [],
        "tolerations": _tolerations(rng),
        "volumes": volumes,
        **({"nodeSelector": {"disk": rng.choice(("ssd", "hdd"))}} if rng.random() < 0.2 else {}),
        **({"affinity": _affinity(rng, rare=bool(on))} if rng.random() < 0.6 else {}),
        **({"topologySpreadConstraints": _spread(rng)} if rng.random() < 0.4 else {}),
        **({"nodeName": on} if on else {}),
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def _container(rng: Random, name: str, ports: bool = True) -> Object:
    requests = {"cpu": f"{rng.choice((0, 100, 300))}m", "memory": f"{rng.choice((0, 100, 300))}Mi"}
    gpu = {GPU: "1"} if rng.random() < 0.1 else {}
    port = {"containerPort": 80, "hostPort": 80 if name == "main" else 81, "protocol": rng.choice(("TCP", "UDP"))}
    port |= {"hostIP": rng.choice(("127.0.0.1", "10.0.0.1"))} if rng.random() < 0.5 else {}
    return {
        "name": name,
        "image": "x",
        "resources": {"requests": requests | gpu, "limits": gpu},
        "ports": [port] if ports and rng.random() < 0.15 else [],
    }


def _tolerations(rng: Random) -> list[Object]:
    options = [
        {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Equal", "value": "cpu"},
        {"key": "drain", "operator": "Exists"},
        {"operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]
    return [each for each in options if rng.random() < 0.15]


def _affinity(rng: Random, rare: bool) -> Object:
    chance = 0.15 if rare else 0.35
    found: Object = {}
    if rng.random() < 0.4:
        terms = [_node_term(rng) for _ in range(rng.randint(1, 2))]
        found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for kind in ("podAffinity", "podAntiAffinity"):
        if rng.random() < chance:
            terms = [_pod_term(rng) for _ in range(rng.choice((1, 1, 2)))]
            found[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return found


def _node_term(rng: Random) -> Object:
    expressions = [
        {"key": "disk", "operator": rng.choice(("In", "NotIn")), "values": ["ssd"]},
        {"key": RACK, "operator": rng.choice(("Exists", "DoesNotExist"))},
        {"key": ZONE, "operator": rng.choice(("In", "NotIn")), "values": rng.sample("abc", 2)},
        {"key": "slots", "operator": rng.choice(("Gt", "Lt")), "values": ["5"]},
    ]
    fields = [{"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": ["n1"]}]
    return {
        "matchExpressions": rng.sample(expressions, rng.randint(0, 2)),
        "matchFields": fields if rng.random() < 0.1 else [],
    }


def _pod_term(rng: Random) -> Object:
    namespaces = {"namespaces": rng.sample(NAMESPACES, rng.randint(1, 2))} if rng.random() < 0.3 else {}
    return {"topologyKey": rng.choice(KEYS), "labelSelector": _selector(rng), **namespaces}


def _selector(rng: Random) -> Object:
    operator = rng.choice(("In", "NotIn"))
    options: list[Object] = [
        {"matchLabels": {"app": rng.choice(APPS)}},
        {"matchLabels": {"app": rng.choice(APPS), "tier": rng.choice("12")}},
        {"matchExpressions": [{"key": "app", "operator": operator, "values": rng.sample(APPS, 2)}]},
        {"matchExpressions": [{"key": "missing", "operator": "DoesNotExist"}]},
        {},
    ]
    return rng.choice(options)


def _spread(rng: Random) -> list[Object]:
    keys = rng.sample(KEYS, rng.choice((1, 1, 2)))
    return [
        {
            "maxSkew": rng.randint(1, 2),
            "topologyKey": key,
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            # An empty selector meant every pod in Kubernetes 1.20, and means none since.
            "labelSelector": _selector(rng) or {"matchLabels": {"app": "web"}},
        }
        for key in keys
    ]
