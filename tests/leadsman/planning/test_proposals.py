"""Whatever a planner proposes, kube-scheduler and the extender accept at the moment of the action.

Before one question stood for all planners, a healthy pod was evicted to a node that refused it.
"""

import json
from copy import deepcopy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.wire.pod import read_pod
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import node_devices
from leadsman.cluster.model import Cluster, ClusterNode, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision.decide import FILTERS, FilterResult, filter_nodes
from leadsman.decision.inputs import DecisionInputs, DeviceInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.decoding import decode_json
from leadsman.planning.backups.backup_plan import BackupSettings, FailureDomains
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.capacity.count import count_together, packed
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.moves.drain import plan_drain
from leadsman.planning.moves.search import Search, why_never_moved
from leadsman.planning.optimise.choices import greedy_choices
from leadsman.planning.optimise.cluster_problem import model_cluster
from leadsman.planning.optimise.optimised_plan import plan_of_choices
from leadsman.planning.rebalance_plan import RebalanceSettings, plan_rebalance
from leadsman.planning.situation import Situation
from leadsman.published.moves import PlannedMove
from leadsman.sources.cluster.pod_object import PodObject
from tests.leadsman.planning.moves.movable_pods import GIB
from tests.leadsman.planning.random_worlds import GPU, RACK, PickyPlugin, World
from tests.leadsman.planning.rebalance.test_planner import COLD, HOT, hot, inputs, planned, pod, steps

SETTINGS = BackupSettings(rack_label=RACK)
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
seeds = st.integers(0, 10**6)
many = settings(max_examples=40)


def check_moves(world: World, moves: tuple[PlannedMove, ...]) -> None:
    """Makes one move after the other, each as an eviction and a new pod."""
    for move in moves:
        assert world.pods[move.name]["spec"]["nodeName"] == move.from_node
        world.move(move.name, move.to_node, steered=True)


REFUSALS = (
    *("room", "cordon or taint", "selector", "spread", ": affinity", "anti-affinity", "another pod's anti-affinity"),
    *("delay to n", "delay to deployment/", "no such node or workload", "heat GreaterThan 50", "keep failing"),
    *("it does not like the node", "room on the node is held", "no single device has", "link has not the bandwidth"),
)


def test_the_random_clusters_refuse_for_every_reason_that_planners_must_heed() -> None:
    """A reason that never comes proves nothing: the telemetry policy's was not among them once."""
    lacking = set(REFUSALS)
    for world in map(World, range(60)):
        for each in world.pods.values():
            here = each["spec"].pop("nodeName", "")
            why_not = {world.why_not(each, node) for node in world.nodes}
            each["spec"] |= {"nodeName": here} if here else {}
            lacking -= {reason for reason in lacking if any(reason in why for why in why_not)}
        if not lacking:
            return
    assert not lacking


@many
@given(seeds)
def test_a_pod_of_the_cluster_is_what_kube_scheduler_s_request_shows(seed: int) -> None:
    """Nothing that decides is lost on the way from the API server to a planner."""
    for manifest in World(seed).pods.values():
        body = json.dumps(manifest).encode()
        assert PodInfo.of(decode_json(body, PodObject).model) == read_pod(body)


@many
@given(seeds)
def test_moves_of_rebalancing_are_accepted(seed: int) -> None:
    world = World(seed)
    plan = plan_rebalance(world.situation(), (), RebalanceSettings(threshold=0.01), SETTINGS, None, 0.0)
    check_moves(world, plan.moves)


@many
@given(seeds)
def test_moves_of_a_drain_are_accepted(seed: int) -> None:
    world = World(seed)
    node = sorted(world.nodes)[seed % len(world.nodes)]
    asked = iter(range(50))
    plan = plan_drain(world.situation(), [node], SETTINGS, None, has_time=lambda: next(asked, 50) < 50).plan
    cordoned = world.nodes[node]["spec"]
    cordoned |= {"unschedulable": True, "taints": [*cordoned.get("taints", ()), CORDONED]}
    check_moves(world, plan.moves)


@many
@given(seeds)
@example(147152)  # The moved pod's spread holds only once the pending pod has its place, and it lands before that.
def test_a_pod_that_is_replaced_and_one_that_room_is_made_for_are_accepted(seed: int) -> None:
    world = World(seed)
    situation = world.situation()
    search = Search(situation, lambda *_: False)
    for each in situation.cluster.pods.values():
        if each.node and (to := next(search.places(each), "")):
            world.copy().move(each.name, to, steered=True)
        elif not each.node and not search.fits(each) and (found := search.room_for(each, why_never_moved)):
            after = world.copy()
            after.move(found[0].name, found[1], steered=True)
            after.move(each.name, found[0].node)


@many
@given(seeds)
def test_backups_take_their_pods_after_every_failure(seed: int) -> None:
    world = World(seed)
    situation = world.situation()
    plan = plan_backups(situation, SETTINGS)
    domains = FailureDomains(situation.cluster, situation.inputs, RACK)
    for domain in {domain for backup in plan.backups.values() for domain in backup.domains}:
        failure = domains.failure(domain)
        after = world.without_holds()
        after.nodes = {name: node for name, node in after.nodes.items() if name not in failure.nodes}
        landing = {}
        for each in failure.pods:
            backup = plan.backups.get(each.uid)
            if backup and domain in backup.domains:
                landing[each.name] = after.pods[each.name]["spec"]["nodeName"] = backup.node
            else:
                del after.pods[each.name]
        for name, node in landing.items():
            after.move(name, node)


@many
@given(seeds)
def test_places_of_an_optimised_plan_are_accepted(seed: int) -> None:
    world = World(seed)
    modelled = model_cluster(world.situation(), SETTINGS)
    plan = plan_of_choices(modelled, greedy_choices(modelled.problem, modelled.start))
    before = {uid: each.node for uid, each in world.cluster().pods.items()}
    for each in plan.situation.cluster.pods.values():
        world.pods[each.name]["spec"]["nodeName"] = each.node
    for uid, each in plan.situation.cluster.pods.items():
        if each.node != before[uid]:
            world.move(each.name, each.node)


@many
@given(seeds)
def test_pods_that_fit_are_accepted(seed: int) -> None:
    world = World(seed)
    name, manifest = sorted(world.pods.items())[0]
    manifest["spec"].pop("nodeName", None)
    del world.pods[name]
    template = decode_json(json.dumps(manifest).encode(), PodObject).model
    model = model_capacity(world.situation(), [PodTemplate("t", template)], SETTINGS)
    count = count_together(model)
    situation, _, _ = packed(model, count.packing)
    new = [each for uid, each in situation.cluster.pods.items() if uid not in world.cluster().pods]
    for each in new:
        world.pods[each.name] = deepcopy(manifest)
        world.pods[each.name]["metadata"] |= {"name": each.name, "uid": each.uid}
        world.pods[each.name]["spec"]["nodeName"] = each.node
    for each in new:
        world.move(each.name, each.node)


def cards(*pods: tuple[str, str]) -> tuple[Cluster, DecisionInputs]:
    """Nodes a and b have a card of 8 GiB each, of which each pod asks 5."""
    labels = {f"{GPU}.count": "1", f"{GPU}.memory": "8192"}
    size = Resources(8000, 64 * GIB, 110, {GPU: 4})
    nodes = [ClusterNode(name, f"uid-{name}", allocatable=size, ready=True, labels=labels) for name in "ab"]
    demand = DeviceDemand(({GPU: 1},), memory_bytes=5 * GIB)
    requests = Resources(100, GIB, 1, {GPU: 1})
    asking = [replace(pod(name, where, owner=name), requests=requests, devices=demand) for name, where in pods]
    cluster = cluster_of(nodes, asking)
    devices = {name: node_devices(each, cluster.pods_on(name)) for name, each in cluster.nodes.items()}
    return cluster, replace(inputs(cluster, a=HOT, b=COLD), devices=DeviceInputs(True, devices))


def test_a_pod_is_not_evicted_for_a_card_that_is_full() -> None:
    cluster, known = cards(("one", "a"), ("two", "b"))
    assert filter_nodes(PodInfo.of(cluster.pods["one"]), ["b"], known).kept == ()
    assert steps(planned((cluster, known))) == []


def test_of_two_pods_that_leave_for_one_card_the_second_finds_it_full() -> None:
    plan = plan_drain(Situation(*cards(("one", "a"), ("two", "a"))), ["a"], None, None).plan
    assert [move.to_node for move in plan.moves] == ["b"]
    assert len(plan.left_out) == 1


def test_a_pod_is_not_evicted_for_a_node_that_a_plugin_refuses() -> None:
    cluster, known = hot(pod("one", "a", labels={"example.com/picky": "yes"}))

    def picky(*asked: Any) -> FilterResult:
        pod, nodes, inputs = asked
        return filter_nodes(pod, nodes, inputs, (*FILTERS, PickyPlugin({"b"})))

    assert steps(planned((cluster, known))) == ["one a>b"]
    situation = Situation(cluster, known, picky)
    assert list(Search(situation, lambda *_: False).places(cluster.pods["one"])) == []
    assert plan_rebalance(situation, (), RebalanceSettings(), None, None, 0.0).moves == ()
