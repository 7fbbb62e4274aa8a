"""How many claims of a whole node are refused: nodes of 8 devices, mixed claims of 1, 2, 4 and 8 that come and go.

    python -m benchmarks.device_packing

The score is the extender's own, on the devices of ResourceSlices. Beside it: the first node that fits, and
any that fits, which is what kube-scheduler does where no plugin scores claims. Each has the same claims at the same
times; one that fits nowhere is refused and does not come again.
"""

import argparse
import heapq
import random
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from leadsman.cluster.devices.claims import ClaimRequests, RequestedWay
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import DeviceCount, NodeDevices
from leadsman.decision.devices.fit_score import FitScore
from leadsman.decision.devices.model import AskedDevices, DeviceInputs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state.snapshot import Snapshot

DEVICES = 8
SIZES, SHARES = (1, 2, 4, 8), (4, 3, 2, 1)
"""Sizes of claims, and how many of each come."""

POD = PodInfo("bench", "pod", devices=DeviceDemand(claims=("claim",)))
SELECTION = "class gpu"

Choose = Callable[[Sequence[str], Mapping[str, int], int, random.Random], str]
"""The node for a claim of so many devices, of those that fit, by what each node has free."""


class Claim(Struct, frozen=True):
    """A claim of so many devices, from one time to another."""

    size: int
    begins: float
    ends: float


def claims(count: int, nodes: int, load: float, rng: random.Random) -> list[Claim]:
    """Claims that hold this share of all devices on average, once the first have ended. Lives have a mean of 1."""
    mean_size = sum(size * share for size, share in zip(SIZES, SHARES, strict=True)) / sum(SHARES)
    a_time = load * nodes * DEVICES / mean_size
    at, made = 0.0, []
    for _ in range(count):
        at += rng.expovariate(a_time)
        made.append(Claim(rng.choices(SIZES, SHARES)[0], at, at + rng.expovariate(1.0)))
    return made


def first_fit(fitting: Sequence[str], free: Mapping[str, int], size: int, rng: random.Random) -> str:
    return fitting[0]


def any_fit(fitting: Sequence[str], free: Mapping[str, int], size: int, rng: random.Random) -> str:
    return rng.choice(fitting)


def tightest(fitting: Sequence[str], free: Mapping[str, int], size: int, rng: random.Random) -> str:
    nodes = {node: NodeDevices(selected={SELECTION: DeviceCount(DEVICES, left)}) for node, left in free.items()}
    asked = AskedDevices({"bench/claim": ClaimRequests(((RequestedWay("gpus", SELECTION, size),),))})
    inputs = DecisionInputs(Snapshot(), Policy(), 0.0, devices=DeviceInputs(True, nodes, asked=asked))
    score = FitScore().score(POD, fitting, inputs)
    assert score is not None
    return max(fitting, key=lambda node: score.values[node])


STRATEGIES: Mapping[str, Choose] = {"tightest fit (ours)": tightest, "first fit": first_fit, "any that fits": any_fit}


def refused(strategy: Choose, coming: Sequence[Claim], nodes: int, rng: random.Random) -> dict[int, int]:
    """Size → claims of it that found no node."""
    free = {f"node-{number:03}": DEVICES for number in range(nodes)}
    running: list[tuple[float, str, int]] = []
    lost = dict.fromkeys(SIZES, 0)
    for claim in coming:
        while running and running[0][0] <= claim.begins:
            _, node, size = heapq.heappop(running)
            free[node] += size
        fitting = [node for node, left in free.items() if left >= claim.size]
        if not fitting:
            lost[claim.size] += 1
            continue
        node = strategy(fitting, free, claim.size, rng)
        free[node] -= claim.size
        heapq.heappush(running, (claim.ends, node, claim.size))
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=25, help="of 8 devices (default 25)")
    parser.add_argument("--claims", type=int, default=1_000, help="that come, one after another (default 1000)")
    parser.add_argument("--load", type=float, default=0.8, help="share of all devices that is asked for (default 0.8)")
    parser.add_argument("--seeds", type=int, default=10, help="runs, of which the sum is printed (default 10)")
    args = parser.parse_args()
    print(f"{args.seeds} runs of {args.claims} claims on {args.nodes} nodes of {DEVICES} devices, load {args.load:g}")
    print(f"{'':22}" + "".join(f"{f'refused of {size}':>14}" for size in SIZES))
    eights = {}
    for name, strategy in STRATEGIES.items():
        total = dict.fromkeys(SIZES, 0)
        for seed in range(args.seeds):
            coming = claims(args.claims, args.nodes, args.load, random.Random(seed))
            for size, lost in refused(strategy, coming, args.nodes, random.Random(seed)).items():
                total[size] += lost
        eights[name] = total[8]
        print(f"{name:22}" + "".join(f"{total[size]:>14}" for size in SIZES))
    for name in ("first fit", "any that fits"):
        ratio = eights["tightest fit (ours)"] / eights[name] if eights[name] else float("nan")
        print(f"refused claims of 8, ours / {name}: {ratio:.2f}")


if __name__ == "__main__":
    main()
