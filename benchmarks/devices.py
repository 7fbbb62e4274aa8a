"""What devices cost a request, in CPU time: `python -m benchmarks.devices`.

Each node has eight cards and four pods on them. A pod that asks for a part of a card, one for whole cards and one for
bandwidth, beside one that asks for nothing while devices are not followed; and the part of a card again while parts are
reserved for other pods, on whichever node. Filter and prioritize together. The ways are measured in turn; the devices
of 1 % of the nodes change between two rounds and are prepared as the follower does it, off the request. "first": after
a start.
"""

import argparse
import statistics
import time
from collections.abc import Iterable

from leadsman.cluster.devices.cards import prepare_cards
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs, DeviceInputs, Reservation
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.decision.policy import DevicesPolicy, Policy
from leadsman.decision.view import Views
from leadsman.state import metric_names
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.state.snapshot import NodeState, Snapshot

NOW, GIB = 10.0, 1 << 30
CARD, FUNCTION = "gpu.intel.com/i915", "openshift.io/sriov_net"
MEMORY = "gpu.intel.com/memory.max"
POLICY = Policy(devices=DevicesPolicy(virtual_functions=(FUNCTION,)))
NOTHING = "nothing, not followed"
PART = DeviceDemand(({CARD: 1, MEMORY: 5 * GIB},))
WAYS = {
    NOTHING: (DeviceDemand(), 0),
    "nothing": (DeviceDemand(), 0),
    "whole cards": (DeviceDemand(({CARD: 8},)), 0),
    "a part of a card": (PART, 0),
    "… and 4 reserved": (PART, 4),
    "… and 16 reserved": (PART, 16),
    "bandwidth": (DeviceDemand(({FUNCTION: 1},), bandwidth_bits=2 * 10**9), 0),
}
"""What a pod asks, and for how many pods a part of a card is reserved."""


def node_devices(number: int) -> NodeDevices:
    cards = ".".join(f"card{card}" for card in range(8))
    part = DeviceDemand(({CARD: 1, MEMORY: 4 * GIB},))
    linked = DeviceDemand(({FUNCTION: 1},), bandwidth_bits=10**9)
    return NodeDevices(
        {CARD: 80, MEMORY: 128 * GIB, FUNCTION: 8},
        {"gpu.intel.com/cards": cards},
        {f"{number}-{pod}": part if pod < 2 else linked for pod in range(4)},
    )


def node_state() -> NodeState:
    link = {
        metric_names.SRIOV_LINK_HEADROOM: 10.0 * 10**9,
        metric_names.SRIOV_LIMITED: 0.0,
        metric_names.SRIOV_LIMITED_FUNCTIONS: 0.0,
    }
    return NodeState(Identity("agent", 1, "10.0.0.1"), Heartbeat(1, 1, 5.0), None, Hardware(link), NOW)


def prepare(nodes: Iterable[NodeDevices]) -> float:
    """Milliseconds of CPU that it took."""
    began = time.thread_time()
    for node in nodes:
        prepare_cards(node)
    return (time.thread_time() - began) * 1000


def measure(count: int, requests: int) -> None:
    nodes = CandidateNodes(f"node-{number}" for number in range(count))
    table = {node: node_devices(at) for at, node in enumerate(nodes)}
    snapshot = Snapshot(dict.fromkeys(nodes, node_state()))
    views = {name: Views() for name in WAYS}
    milliseconds: dict[str, list[float]] = {name: [] for name in WAYS}
    print(f"{count:>6,} nodes  prepared after a start in {prepare(table.values()):.0f} ms")
    for turn in range(requests):
        changed = nodes[turn % 100 :: 100]
        table = table | {node: node_devices(at) for at, node in enumerate(changed)}
        prepare(table[node] for node in changed)
        for name, (demand, reserved) in WAYS.items():
            reservations = tuple(Reservation(f"reserved-{at}", PART) for at in range(reserved))
            followed = DeviceInputs(followed=True, nodes=table, reservations=reservations)
            seen = DeviceInputs() if name == NOTHING else followed
            inputs = DecisionInputs(snapshot, POLICY, NOW, views[name], devices=seen)
            pod = PodInfo("shop", "web", devices=demand)
            began = time.thread_time()
            kept, _ = filter_nodes(pod, nodes, inputs)
            score_nodes(pod, kept, inputs)
            milliseconds[name].append((time.thread_time() - began) * 1000)
            assert len(kept) == count
    plain = statistics.median(milliseconds[NOTHING])
    for name, values in milliseconds.items():
        p50 = statistics.median(values)
        cost = f"first {values[0]:8.2f} ms   p50 {p50:8.2f} ms   max {max(values):8.2f} ms   ratio {p50 / plain:6.1f}"
        print(f"{count:>6,} nodes  asks {name:<21} {cost}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1_000, 5_000])
    parser.add_argument("--requests", type=int, default=20)
    args = parser.parse_args()
    for count in args.nodes:
        measure(count, args.requests)


if __name__ == "__main__":
    main()
