"""`python -m leadsman.simulator.solver.child`: a Job on standard input, a Found on standard output.

Progress is on standard error, a line for each better plan.
"""

import sys
import time

import msgspec
import numpy as np

from leadsman.planning.optimise.problem import Score
from leadsman.planning.optimise.search import search
from leadsman.simulator.solver.cp_sat import CpSat
from leadsman.simulator.solver.job import Job, encode
from leadsman.simulator.solver.relaxation import Relaxation


def main() -> None:
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    ends_at = time.monotonic() + job.seconds

    def seconds_left() -> float:
        return ends_at - time.monotonic()

    def progress(at: Score, work: float) -> None:
        elapsed = job.seconds - seconds_left()
        sys.stderr.write(f"reserved {at.reserved}, {work:.1f} of {job.work:g} work, {elapsed:.0f} s\n")
        sys.stderr.flush()

    found = search(
        job.problem,
        job.start,
        CpSat(job.seed, seconds_left),
        Relaxation(seconds_left),
        job.work,
        np.random.default_rng(job.seed),
        lambda: seconds_left() <= 0,
        progress,
    )
    sys.stdout.buffer.write(encode(found))


if __name__ == "__main__":
    main()
