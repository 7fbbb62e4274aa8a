"""Random small clusters as the API server has them, and who is right: the extender, and kube-scheduler in few words.

Planners are given what our own readers make of the manifests. What they propose is judged on the manifests: the pod is
read from them as from kube-scheduler's request, and asked about with `filter_nodes` in inputs that are made again from
nothing. So a field that is lost on the way to a planner shows.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from math import dist
from random import Random
from typing import Any

from msgspec.structs import replace

from extender.wire.pod import read_pod
from leadsman.cluster.devices.node_devices import node_devices
from leadsman.cluster.model import Cluster, cluster_of
from leadsman.decision.decide import FILTERS, FilterResult, filter_nodes
from leadsman.decision.inputs import (
    DecisionInputs,
    DeviceInputs,
    PlacedPod,
    PolledMetrics,
    Readings,
    RoomHold,
    SelfHealing,
    TasPolicies,
    TelemetryInputs,
    WorkloadIndex,
)
from leadsman.decision.model import Evidence, PodInfo, Refusal
from leadsman.decision.policy import BreakerPolicy, DevicesPolicy, Policy
from leadsman.decision.telemetry.taspolicy import Operator, Rule, Strategy, TasPolicy
from leadsman.kube import quantity
from leadsman.kube.decoding import decode_json
from leadsman.planning.situation import Situation
from leadsman.sources.cluster.cluster_objects import NodeObject
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.state.metric_names import CPU_PRESSURE, SRIOV_LIMITED, SRIOV_LIMITED_FUNCTIONS, SRIOV_LINK_HEADROOM
from leadsman.state.records import Hardware, Heartbeat, Reward
from leadsman.state.snapshot import AgedReward, NodeState, Snapshot
from tests.leadsman.planning.backups.random_clusters import Matrix

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
GPU, VF = "nvidia.com/gpu", "example.com/vf"
APPS = ("a", "b", "c", "d")
NOW = 1000.0

Object = dict[str, Any]


class PickyPlugin:
    """A filter of another package: it keeps pods with a label off some nodes."""

    name = "picky"

    def __init__(self, nodes: set[str]) -> None:
        self._nodes = nodes

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        if "example.com/picky" not in pod.labels:
            return {}
        return {node: Refusal(self.name, "it does not like the node") for node in nodes if node in self._nodes}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()


@lru_cache(maxsize=1_000)
def _model(manifest: str, kind: type[NodeObject] | type[PodObject]) -> Any:
    """Asked again for each question about a world, in which one pod moves at a time."""
    return decode_json(manifest.encode(), kind).model


class World:
    """Nodes and pods by name, and what is measured of them."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        names = [f"n{number}" for number in range(rng.randint(3, 6))]
        self.nodes = {name: _node(name, rng) for name in names}
        self.pods: dict[str, Object] = {}
        position = {name: (rng.uniform(0, 20), rng.uniform(0, 20)) for name in names}
        self._matrix = Matrix({a: {b: dist(position[a], position[b]) for b in names} for a in names})
        self._heat = {name: rng.choice((10, 10, 90)) for name in names}
        self._pressure = {name: rng.choice((0.0, 0.5, 0.95)) for name in names}
        self._failing = {(name, app) for name in names for app in APPS if rng.random() < 0.1}
        self._headroom = {name: rng.choice((0, 3, 9)) * 10**9 for name in names}
        self._picky = PickyPlugin({name for name in names if rng.random() < 0.3})
        self._held = {name: f"rs-{rng.choice(APPS)}" for name in names if rng.random() < 0.1}
        for number in range(rng.randint(4, 16)):
            pod = _pod(number, names, rng)
            self.pods[pod["metadata"]["name"]] = pod
            accepted = [node for node in names if not self.why_not(pod, node)]
            if accepted and rng.random() < 0.9:
                pod["spec"]["nodeName"] = rng.choice(accepted)

    def copy(self) -> "World":
        other = object.__new__(World)
        other.__dict__ = {**self.__dict__, "nodes": deepcopy(self.nodes), "pods": deepcopy(self.pods)}
        return other

    def situation(self) -> Situation:
        """What a planner is given."""
        return Situation(self.cluster(), self.inputs(), self.judge)

    def cluster(self) -> Cluster:
        nodes = [_model(json.dumps(each), NodeObject) for each in self.nodes.values()]
        return cluster_of(nodes, [_model(json.dumps(each), PodObject) for each in self.pods.values()])

    def inputs(self) -> DecisionInputs:
        """Everything that an extender knows now."""
        cluster, workloads = self.cluster(), dict[tuple[str, str], dict[str, tuple[PlacedPod, ...]]]()
        for name, pod in self.pods.items():
            node = pod["spec"].get("nodeName", "")
            kinds = workloads.setdefault(("shop", pod["metadata"]["labels"]["app"]), {})
            kinds["deployment"] = (*kinds.get("deployment", ()), *([PlacedPod(name, node)] if node else []))
        bad = AgedReward(Reward(at_seconds=NOW, healthy=0.1, failed=9.0, kuberl=0.1, last_incident_seconds=NOW), NOW)
        good = AgedReward(Reward(at_seconds=NOW, healthy=30.0, recent=5.0), NOW)
        link = {SRIOV_LIMITED: 0.0, SRIOV_LIMITED_FUNCTIONS: 0.0}
        states = {
            name: NodeState(
                heartbeat=Heartbeat(epoch=1, seq=1, push_interval_seconds=5.0),
                hardware=Hardware({**link, SRIOV_LINK_HEADROOM: float(bits), CPU_PRESSURE: self._pressure[name]}),
                changed_at=NOW - 1,
            )
            for name, bits in self._headroom.items()
        }
        rewards = {app: {name: bad if (name, app) in self._failing else good for name in states} for app in APPS}
        heat = Readings({name: value * quantity.NANO for name, value in self._heat.items()})
        cool = TasPolicy("shop", "cool", Strategy((Rule("heat", Operator.GREATER_THAN, 50),)))
        devices = {name: node_devices(node, cluster.pods_on(name)) for name, node in cluster.nodes.items()}
        holds = {name: (RoomHold(owner, NOW + 60),) for name, owner in self._held.items()}
        return DecisionInputs(
            Snapshot(nodes=states, rewards=rewards),
            Policy(breaker=BreakerPolicy(failures=3.0), devices=DevicesPolicy(virtual_functions=(VF,))),
            NOW,
            workloads=WorkloadIndex(workloads, NOW),
            delay_views=(self._matrix,),
            telemetry=TelemetryInputs(TasPolicies({cool.key: cool}, loaded=True), (PolledMetrics({"heat": heat}),)),
            self_healing=SelfHealing(holds=holds, read_at=NOW),
            devices=DeviceInputs(True, devices),
        )

    def judge(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> FilterResult:
        return filter_nodes(pod, nodes, inputs, (*FILTERS, self._picky))

    def without_holds(self) -> "World":
        """As after a failure: what holds for seconds is over."""
        other = self.copy()
        other._held = {}
        return other

    def why_not(self, pod: Object, node: str, *, steered: bool = False) -> str:
        """Why kube-scheduler and the extender would not bind this pod without a node to the node; "": they would.

        steered: the controller publishes that pods of its owner are being moved there, as it does while a pod moves.
        """
        offered = [name for name in self.nodes if not self._why_not_scheduled(pod, name)]
        if node not in offered:
            return f"kube-scheduler: {self._why_not_scheduled(pod, node)}"
        request = read_pod(json.dumps(pod).encode())
        inputs = self.inputs()
        if steered:
            holds = inputs.self_healing.holds
            steer = RoomHold(request.owner_uid, NOW + 60, only=True)
            holds = {**holds, node: (*holds.get(node, ()), steer)}
            inputs = replace(inputs, self_healing=replace(inputs.self_healing, holds=holds))
        kept, refused = self.judge(request, offered, inputs)
        return "" if node in kept else f"extender: {refused[node].reason}"

    def move(self, name: str, node: str, *, steered: bool = False) -> None:
        """Takes a pod off its node and puts it on another one, which must accept it then."""
        pod = self.pods[name]
        came_from = pod["spec"].pop("nodeName", "")
        assert self.why_not(pod, node, steered=steered) == "", f"{name} {came_from}>{node}"
        pod["spec"]["nodeName"] = node

    def _why_not_scheduled(self, pod: Object, name: str) -> str:
        node, spec = self.nodes[name], pod["spec"]
        others = {other: each for other, each in self.pods.items() if each["spec"].get("nodeName") and each is not pod}
        there = [each for each in others.values() if each["spec"]["nodeName"] == name]
        tolerates = bool(spec.get("tolerations"))
        if node["spec"].get("unschedulable") or (node["spec"].get("taints") and not tolerates):
            return "cordon or taint"
        if any(node["metadata"]["labels"].get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            return "selector"
        used = Counter[str]()
        for each in (*there, pod):
            used.update({**each["spec"]["containers"][0]["resources"]["requests"], "pods": 1})
        if any(amount > node["status"]["allocatable"].get(what, 0) for what, amount in used.items()):
            return "room"
        return self._affinity(pod, node, list(others.values())) or self._spread(pod, node, list(others.values()))

    def _affinity(self, pod: Object, node: Object, others: list[Object]) -> str:
        for each in others:
            for key, app in _terms(each, "podAntiAffinity"):
                if app == _app(pod) and self._same(each, node, key):
                    return "another pod's anti-affinity"
        for key, app in _terms(pod, "podAntiAffinity"):
            if any(_app(each) == app and self._same(each, node, key) for each in others):
                return "anti-affinity"
        for key, app in _terms(pod, "podAffinity"):
            meant = [each for each in others if _app(each) == app]
            if (meant or app != _app(pod)) and not any(self._same(each, node, key) for each in meant):
                return "affinity"
        return ""

    def _spread(self, pod: Object, node: Object, others: list[Object]) -> str:
        for each in pod["spec"].get("topologySpreadConstraints", ()):
            selector = pod["spec"].get("nodeSelector", {}).items()
            counted = [n for n in self.nodes.values() if all(n["metadata"]["labels"].get(k) == v for k, v in selector)]
            pods = {one["metadata"]["labels"][ZONE]: 0 for one in counted}
            names = {one["metadata"]["name"] for one in counted}
            for other in others:
                if _app(other) == _app(pod) and other["spec"]["nodeName"] in names:
                    pods[self.nodes[other["spec"]["nodeName"]]["metadata"]["labels"][ZONE]] += 1
            if pods[node["metadata"]["labels"][ZONE]] + 1 - min(pods.values()) > each["maxSkew"]:
                return "spread"
        return ""

    def _same(self, pod: Object, node: Object, key: str) -> bool:
        labels = self.nodes.get(pod["spec"]["nodeName"], node)["metadata"]["labels"]
        return bool(labels[key] == node["metadata"]["labels"][key])


def _app(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["app"])


def _terms(pod: Object, kind: str) -> list[tuple[str, str]]:
    terms = pod["spec"].get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    return [(term["topologyKey"], term["labelSelector"]["matchLabels"]["app"]) for term in terms]


def _node(name: str, rng: Random) -> Object:
    labels = {ZONE: rng.choice("xy"), RACK: rng.choice("12"), HOST: name}
    allocatable: dict[str, int] = {"cpu": 4, "memory": rng.choice((8, 12)) << 30, "pods": 20, VF: rng.choice((0, 4))}
    if rng.random() < 0.6:
        labels |= {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "8192"}
        allocatable[GPU] = 8
    spec: Object = {}
    if rng.random() < 0.15:
        spec["taints"] = [{"key": "dedicated", "value": "", "effect": "NoSchedule"}]
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable, "conditions": ready}}


def _pod(number: int, nodes: list[str], rng: Random) -> Object:
    app = rng.choice(APPS)
    name = f"{app}-{number}"
    labels: dict[str, str] = {"app": app, "podtype": app, "pod-template-hash": "1"}
    if rng.random() < 0.4:
        labels[f"delay_{rng.choice((*nodes, *nodes, *APPS))}"] = str(rng.choice((8, 15, 25)))
    if rng.random() < 0.2:
        labels["telemetry-policy"] = "cool"
    if rng.random() < 0.2:
        labels["example.com/picky"] = "yes"
    annotations = {"leadsman.dev/backup": rng.choice(("node", "zone", "rack"))}
    requests: dict[str, int] = {"cpu": 1 if rng.random() < 0.2 else 0, "memory": rng.choice((1, 2, 4)) << 30}
    if rng.random() < 0.35:
        requests[GPU] = 1
        annotations["leadsman.dev/device-memory"] = rng.choice(("3Gi", "5Gi"))
    if rng.random() < 0.2:
        requests[VF] = 1
        annotations["leadsman.dev/bandwidth"] = rng.choice(("1Gbit", "4Gbit"))
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": labels,
        "annotations": annotations,
        "creationTimestamp": f"2026-01-01T00:00:{number:02}Z",
        "ownerReferences": [
            {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": f"{app}-1", "uid": f"rs-{app}", "controller": True}
        ],
    }
    spec: Object = {"containers": [{"name": "c", "resources": {"requests": requests}}], **_constraints(app, rng)}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": metadata, "spec": spec, "status": status}


def _constraints(app: str, rng: Random) -> Object:
    spec: Object = {}
    key = rng.choice((ZONE, HOST))
    selector = {"labelSelector": {"matchLabels": {"app": rng.choice(APPS)}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, **selector}]}
    match rng.choice((*([""] * 8), "near", "apart", "spread", "zone", "tolerates")):
        case "near":
            spec["affinity"] = {"podAffinity": required}
        case "apart":
            spec["affinity"] = {"podAntiAffinity": required}
        case "spread":
            own = {"labelSelector": {"matchLabels": {"app": app}}}
            spec["topologySpreadConstraints"] = [
                {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **own}
            ]
        case "zone":
            spec["nodeSelector"] = {ZONE: rng.choice("xy")}
        case "tolerates":
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return spec
