"""What learning from failures is worth: Leadsman, kubeRL's rule, Thompson sampling, a two-state filter and oracles.

    python -m benchmarks.rewards [--seeds 30] [--first-seed 1000] [--workers 2] [SCENARIO ...]

The model was chosen on seeds 0 to 29; seeds from 1000 on judge it. `leadsman simulate rewards` runs one such scenario
with any numbers. The target is 0.9 of kubeRL's failures before and after the faults move, and half-way to the best
possible where that is above 0.85; once with the oracle as the best, which knows the bad nodes, and once with the best
that a learner can do.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

from leadsman.simulator.rewards import comparison
from leadsman.simulator.rewards.cluster import Fault, SimulationSettings

SCENARIOS = {
    "one type": SimulationSettings(),
    "8 types": SimulationSettings(types=8),
    "racks": SimulationSettings(fault=Fault.RACKS),
    "racks, 8 types": SimulationSettings(fault=Fault.RACKS, types=8),
    "slow nodes": SimulationSettings(fault=Fault.SLOW),
    "one of 8 types fails everywhere": SimulationSettings(types=8, bad_types=1),
    "one type, 4,000 placements": SimulationSettings(placements=4_000),
    "8 types, 4,000 placements": SimulationSettings(types=8, placements=4_000),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--first-seed", type=int, default=1_000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of: {', '.join(SCENARIOS)}")
    args = options.parse_args()
    if unknown := set(args.scenarios) - SCENARIOS.keys():
        options.error(f"{', '.join(sorted(unknown))}: want some of {', '.join(SCENARIOS)}")
    with ProcessPoolExecutor(args.workers) as pool:
        for name in args.scenarios or SCENARIOS:
            started = time.monotonic()
            found = comparison.compare(SCENARIOS[name], args.first_seed, args.seeds, pool.map)
            print(f"{name} ({time.monotonic() - started:.0f} s)\n{comparison.render(found)}\n", flush=True)


if __name__ == "__main__":
    main()
