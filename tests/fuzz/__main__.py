"""`python -m tests.fuzz [--seconds N] [NAME…]`: fuzzes the harnesses in turn and prints a table.

Each runs in a process of its own, because libFuzzer ends the process that it runs in. New inputs that reach new code
are kept below --corpus for the next run; one that breaks a promise is written to crash-NAME-… in the working directory:
mend the parser, and put the input, made short, into tests/data/fuzz/NAME.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from leadsman.runtime.text_table import align_columns

SEEDS = Path(__file__).parents[1] / "data" / "fuzz"

MAX_MEMORY_MB = 1024
SLOWEST_INPUT_SECONDS = 120
"""libFuzzer's own limit, for what never ends, on a busy machine; the oracle's is of CPU time."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="harnesses (default: all)", metavar="NAME")
    parser.add_argument("--seconds", type=int, default=60, help="for each harness (default 60)")
    parser.add_argument("--corpus", type=Path, help="folder that keeps what was found (default: a temporary one)")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations (default: another one each time)")
    args = parser.parse_args()
    names = args.names or sorted(each.name for each in SEEDS.iterdir() if each.is_dir())
    with tempfile.TemporaryDirectory() as folder:
        rows = [_fuzz(name, args.seconds, args.seed, args.corpus or Path(folder)) for name in names]
    lines = align_columns([("harness", "executions", "inputs kept", "finding"), *rows])
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(any(finding for *_, finding in rows))


def _fuzz(name: str, seconds: int, seed: int, corpus: Path) -> tuple[str, str, str, str]:
    """The row of one harness."""
    kept = corpus / name
    kept.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.run_harness", name, str(kept), str(SEEDS / name),
               f"-max_total_time={seconds}", f"-seed={seed}",
               f"-rss_limit_mb={MAX_MEMORY_MB}", f"-timeout={SLOWEST_INPUT_SECONDS}", "-print_final_stats=1",
               f"-artifact_prefix=crash-{name}-"]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", ran.stderr)
    finding = re.search(r"Uncaught Python exception: ===\n(.*)", ran.stdout + ran.stderr)
    ended = re.search(r"ERROR: libFuzzer: (.*)", ran.stderr)
    if ran.returncode:
        sys.stderr.write(f"{ran.stdout}{ran.stderr[-1000:]}")
    reason = finding[1] if finding else ended[1] if ended else "failed" * bool(ran.returncode)
    return name, executions[1] if executions else "?", str(len(list(kept.iterdir()))), reason[:100]


if __name__ == "__main__":
    sys.exit(main())
