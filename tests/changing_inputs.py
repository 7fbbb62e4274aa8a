"""A small cluster whose every source of decisions changes, step by step, by a seed. For tests of recordings."""

import random
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, structs

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import ClaimRequests, DeviceCount, NodeDevices, RequestedWay
from leadsman.decision.inputs import (
    AskedDevices,
    DecisionInputs,
    DelayView,
    DeviceInputs,
    EstimatedRow,
    LastRoundTrips,
    PlacedPod,
    PolledMetrics,
    Readings,
    Reservation,
    RoomHold,
    SelfHealing,
    SnapshotMetrics,
    TasPolicies,
    TelemetryInputs,
    WorkloadIndex,
)
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import BreakerPolicy, DelayPolicy, EstimateMode, NearestPolicy, Policy, ScoresPolicy
from leadsman.decision.telemetry.taspolicy import Operator, PolicyKey, Rule, Strategy, TasPolicy
from leadsman.decision.view import Views
from leadsman.kube.quantity import NANO
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.records import Hardware, Heartbeat, Identity, Latency, PeerLatency, Reward
from leadsman.state.snapshot import AgedReward, NodeState, Snapshot
from tests.leadsman.decision.make import Listed

NODES = tuple(f"node-{number}" for number in range(12))
BEYOND_64_BITS = 1 << 70


class Estimates(Struct, frozen=True, eq=False):
    """An EstimateView: the same width of the interval for all pairs."""

    middle_ms: Mapping[str, float]
    made_at: float

    def row(self, reference: str) -> EstimatedRow:
        nodes = [node for node in self.middle_ms if node != reference]
        middle = [self.middle_ms[node] for node in nodes]
        doubts = [float("nan") if node == "node-3" else each for node, each in zip(nodes, middle, strict=True)]
        sources = ["group" if each < 10 else "coordinates" for each in middle]
        lows, highs = [each * 0.7 for each in middle], [each * 1.3 for each in middle]
        return EstimatedRow(nodes, doubts, lows, highs, sources, [0.5] * len(nodes), [0.1] * len(nodes))


def changing_inputs(rng: random.Random, steps: int) -> Iterator[DecisionInputs]:
    """Each the one before with a few changes, mostly of nodes' states."""
    inputs = DecisionInputs(Snapshot(), Policy(), 100.0, Views())
    for change in CHANGES:
        inputs = change(rng, inputs)
    for _ in range(steps):
        inputs = structs.replace(inputs, now=inputs.now + rng.random())
        for change in (_nodes, *rng.sample(CHANGES, rng.randrange(3))):
            inputs = change(rng, inputs)
        yield inputs


def random_pod(rng: random.Random, number: int) -> PodInfo:
    labels = {"app": rng.choice(["web", "db"])}
    if rng.random() < 0.6:
        labels[f"delay_{rng.choice([*NODES, 'cache', 'gone'])}"] = rng.choice(["0", "5", "20", "80", "abc"])
    if rng.random() < 0.4:
        labels["telemetry-policy"] = "cool"
    annotations = {"leadsman.dev/delay-estimate": "accept", "gas-disable-pci-groups": "SECRET"}
    uid, owner = f"uid-{number}", rng.choice(["owner-1", "owner-2", ""])
    return PodInfo("ns", f"pod-{number}", uid, labels, annotations, "deployment/web", "", rng.randrange(3), owner)


def _nodes(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    """Some report, one may go and one may come."""
    nodes = dict(inputs.snapshot.nodes)
    for name in rng.sample(NODES, 4):
        nodes[name] = _node(rng, nodes.get(name), name, inputs.now)
    if rng.random() < 0.2 and len(nodes) > 4:
        del nodes[rng.choice(list(nodes))]
    return _with_snapshot(inputs, nodes=MappingProxyType(nodes))


def _node(rng: random.Random, before: NodeState | None, name: str, now: float) -> NodeState:
    beat = Heartbeat(1, rng.randrange(1_000), 5.0)
    if before is not None and rng.random() < 0.5:
        return structs.replace(before, heartbeat=beat, changed_at=now)
    windows = {peer: _window(rng) for peer in rng.sample(NODES, 6) if peer != name}
    hardware = Hardware({CPU_PRESSURE: rng.random(), "heat": rng.uniform(20, 99)}) if rng.random() < 0.9 else None
    identity = Identity("pod", 1, "10.0.0.1", zone=rng.choice(["a", "b"]))
    return NodeState(identity, beat, Latency(windows), hardware, rng.choice([now, now, now, now - 20.0, None]))


def _window(rng: random.Random) -> PeerLatency:
    if rng.random() < 0.1:
        return PeerLatency(10, 0)
    ms = rng.uniform(0.1, 60)
    return PeerLatency(10, 10, p50_ms=ms, p95_ms=2 * ms, min_ms=ms / 2)


def _rewards(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    rewards = dict(inputs.snapshot.rewards)
    pod_type = rng.choice(["web", "db"])
    by_node = dict(rewards.get(pod_type, {}))
    for name in rng.sample(NODES, 5):
        by_node.pop(name, None)
        reward = Reward(100.0, healthy=rng.uniform(0, 50), failed=rng.uniform(0, 20), incidents={"crash": 3})
        by_node[name] = AgedReward(reward, inputs.now)
    rewards[pod_type] = MappingProxyType(by_node)
    if rng.random() < 0.1:
        del rewards[pod_type]
    return _with_snapshot(inputs, rewards=MappingProxyType(rewards))


def _policy(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    return structs.replace(inputs, policy=random_policy(rng))


def random_policy(rng: random.Random) -> Policy:
    scores = ScoresPolicy(nearest=NearestPolicy(rng.choice([0.0, 2.0, 20.0])))
    delay = DelayPolicy(estimate=rng.choice(list(EstimateMode)))
    return Policy(delay, scores, breaker=BreakerPolicy(failures=rng.choice([0.0, 5.0])))


def _workloads(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    table = dict(inputs.workloads.by_name)
    placed = tuple(PlacedPod(f"cache-{node}", node) for node in rng.sample(NODES, rng.randrange(4)))
    table["ns", rng.choice(["cache", "web"])] = MappingProxyType({"deployment": placed})
    return structs.replace(inputs, workloads=WorkloadIndex(MappingProxyType(table), inputs.now))


def _roles(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    return structs.replace(inputs, node_roles=MappingProxyType({rng.choice(NODES): "cloud"}))


def _healing(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    if rng.random() < 0.5:
        return structs.replace(inputs, self_healing=structs.replace(inputs.self_healing, read_at=inputs.now))
    dead = rng.choice(NODES)
    healing = SelfHealing(
        {dead: "it is dead"},
        {rng.choice(NODES): (RoomHold("owner-1", inputs.now + 5),)},
        {rng.choice(NODES): frozenset(["owner-2"])},
        frozenset(["placeholder-1"]),
        inputs.now,
    )
    last = {dead: LastRoundTrips(inputs.now - 3, {node: rng.uniform(1, 50) for node in NODES if node != dead})}
    return structs.replace(inputs, self_healing=healing, last_round_trips=last)


def _telemetry(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    dontschedule = Strategy((Rule("heat", Operator.GREATER_THAN, rng.randrange(60, 90)),))
    order = Strategy((Rule("room", Operator.GREATER_THAN),))
    policy = TasPolicy("ns", "cool", dontschedule=dontschedule, scheduleonmetric=order)
    policies = TasPolicies({PolicyKey("ns", "cool"): policy}, loaded=True)
    values = {node: rng.randrange(9) * NANO + BEYOND_64_BITS for node in rng.sample(NODES, 9)}
    readings = Readings(MappingProxyType(values), dict.fromkeys(values, inputs.now), inputs.now)
    tables = (SnapshotMetrics(), PolledMetrics(MappingProxyType({"room": readings})))
    return structs.replace(inputs, telemetry=TelemetryInputs(policies, tables[: rng.choice([1, 2, 2, 2])]))


def _delays(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    old: tuple[DelayView, ...] = inputs.delay_views[: rng.randrange(2)]
    pairs = {(node, other): rng.uniform(0, 60) for node in NODES[:8] for other in rng.sample(NODES, 6)}
    lost = {("node-11", node): None for node in NODES[:-1]}
    return structs.replace(inputs, delay_views=(*old, Listed("static", {**pairs, **lost})))


def _estimates(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    estimates = Estimates({node: rng.uniform(0.5, 40) for node in NODES}, inputs.now)
    return structs.replace(inputs, estimates=None if rng.random() < 0.1 else estimates)


def _with_snapshot(inputs: DecisionInputs, **fields: Any) -> DecisionInputs:
    return structs.replace(inputs, snapshot=structs.replace(inputs.snapshot, **fields))


def _devices(rng: random.Random, inputs: DecisionInputs) -> DecisionInputs:
    asked = DeviceDemand(({"gpu.intel.com/i915": 1, "gpu.intel.com/memory.max": 5},), cards=(("card0",),))
    pods = {f"uid-{number}": asked for number in range(rng.randrange(3))}
    node = NodeDevices(
        {"gpu.intel.com/i915": 2, "gpu.intel.com/memory.max": 16},
        {"gpu.intel.com/cards": "card0.card1"},
        pods,
        {"gpu.example.com": DeviceCount(8, rng.randrange(9))},
        {"class gpu": DeviceCount(8, rng.randrange(9))},
    )
    ways = (RequestedWay("some", "class gpu", rng.choice([1, 8, None])), RequestedWay("other", "class other"))
    claims = {f"default/claim-{rng.randrange(3)}": ClaimRequests((ways,))}
    new = AskedDevices(claims, claims, {"example.com/gpu": "class gpu"}, {"class other": "it does not exist"})
    nodes = {**inputs.devices.nodes, rng.choice(NODES): node}
    nodes.pop(rng.choice(NODES), None)
    reservations = (Reservation("uid-9", DeviceDemand(bandwidth_bits=10**9), frozenset(NODES[: rng.randrange(3)])),)
    problem = rng.choice(["", "etcd is away"])
    of_claims = rng.choice([new, inputs.devices.asked])
    return structs.replace(inputs, devices=DeviceInputs(True, nodes, reservations, problem, of_claims))


CHANGES = (_nodes, _rewards, _policy, _workloads, _roles, _healing, _telemetry, _delays, _estimates, _devices)
