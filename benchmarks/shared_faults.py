"""CPU of the rewards score with failures of many pod types: the first pod of each ten seconds, and those after it.

    python -m benchmarks.shared_faults [--nodes 5000] [--types 100] [--rounds 10]

Every type ran on every node; one node in a hundred failed one pod of each of ten types lately. Evidence fades in steps
of ten seconds, so the first pod of a step pays for all types, the first of each type for its own, and the others for
neither. `one record` is the first pod after one node wrote one record. Beside it: the same without any failure.
"""

import argparse
import time
from statistics import median

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.decision.rewards.rewards_score import FADE_STEP_SECONDS, RewardsScore
from leadsman.state import codec, keys
from leadsman.state.key_values import Updated
from leadsman.state.records import Heartbeat, Identity, Reward
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import apply_changes

NODES_A_RACK = 40
FAILING_NODES, FAILING_TYPES = 100, 10
"""One node in so many fails; of so many types."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=5_000)
    options.add_argument("--types", type=int, default=100)
    options.add_argument("--rounds", type=int, default=10)
    args = options.parse_args()
    print(f"{args.nodes:,} nodes, {args.types} types; ms of CPU, median of {args.rounds} rounds")
    print(f"{'':12} {'first of 10 s':>14} {'of its type':>12} {'others':>8} {'one record':>11}")
    for name, failing in (("no failure", False), ("failures", True)):
        cells = measure(args.nodes, args.types, args.rounds, failing)
        print(f"{name:12} {cells[0]:14.2f} {cells[1]:12.2f} {cells[2]:8.2f} {cells[3]:11.2f}")


def measure(nodes: int, types: int, rounds: int, failing: bool) -> tuple[float, ...]:
    """Median milliseconds of the four kinds of pods."""
    names = [f"node-{number:04}" for number in range(nodes)]
    snapshot = apply_changes(Snapshot(), listing(names, types, failing), 0.0)
    policy, cache = Policy(), DecisionInputs(snapshot, Policy(), 0.0).cache
    times: list[tuple[float, ...]] = []
    for number in range(1, rounds + 1):
        now = number * FADE_STEP_SECONDS
        inputs = DecisionInputs(snapshot, policy, now, cache)
        first, own, other = (scoring_ms(kind, names, inputs) for kind in ("0", "1", "1"))
        snapshot = apply_changes(snapshot, [record(names[1], "type-0", False, number)], now)
        times.append((first, own, other, scoring_ms("0", names, DecisionInputs(snapshot, policy, now, cache))))
    return tuple(median(column) for column in zip(*times, strict=True))


def listing(names: list[str], types: int, failing: bool) -> list[Updated]:
    changes = []
    for number, name in enumerate(names):
        identity = Identity("agent", 1, "10.0.0.1", rack=f"rack-{number // NODES_A_RACK}")
        changes.append(Updated(keys.record_key(name, Identity), codec.encode(identity), 1))
        beat = Heartbeat(epoch=1, seq=1, push_interval_seconds=120.0)
        changes.append(Updated(keys.record_key(name, Heartbeat), codec.encode(beat), 1))
        for kind in range(types):
            failed = failing and not number % FAILING_NODES and kind < FAILING_TYPES
            changes.append(record(name, f"type-{kind}", failed, 1))
    return changes


def record(name: str, kind: str, failed: bool, revision: int) -> Updated:
    well = Reward(at_seconds=600.0, healthy=20.0, recent=5.0)
    badly = Reward(at_seconds=600.0, healthy=20.0, recent=0.7, failed=1.0, last_incident_seconds=0.0)
    return Updated(keys.reward_key(name, kind), codec.encode(badly if failed else well), revision)


def scoring_ms(kind: str, names: list[str], inputs: DecisionInputs) -> float:
    """What the score of one pod costs."""
    pod = PodInfo("default", f"web-{kind}", uid=kind, labels={"podtype": f"type-{kind}"})
    started = time.process_time()
    RewardsScore().score(pod, names, inputs)
    return 1_000.0 * (time.process_time() - started)


if __name__ == "__main__":
    main()
