"""`python -m tests.mutations`: switches each defence off in a copy of the tree, and runs the test that must fail."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from leadsman.runtime.text_table import align_columns
from tests.mutations.table import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
AT_ONCE = 2
END_SECONDS = 120.0
"""A test that waits for a deadline which is switched off does not end by itself."""
ALL_END_SECONDS = 1200.0
"""Of all tests together, with nothing switched off."""

FAILED = 1
"""pytest's exit status when a test failed; others are errors of the run itself."""


def copy_tree(folder: Path) -> Path:
    ignored = shutil.ignore_patterns(".git", ".venv", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    return Path(shutil.copytree(ROOT, folder / "tree", ignore=ignored, symlinks=True))


def switch_off(tree: Path, mutation: Mutation) -> None:
    """ValueError when its text is not in the file exactly once."""
    file = tree / mutation.file
    source = file.read_text()
    if source.count(mutation.text) != 1:
        raise ValueError(f"{mutation.file}: want once, found {source.count(mutation.text)} times: {mutation.text}")
    file.write_text(source.replace(mutation.text, mutation.instead))


def run_tests(tree: Path, tests: Sequence[str], end_seconds: float) -> str:
    """What became of the tests with the sources of `tree`: green, red, no end, or pytest's own trouble."""
    nodes = [f"tests/{test}" for test in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *nodes]
    # The tree stands before the installed packages, also for processes that the tests start.
    environ = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, timeout=end_seconds)
    except subprocess.TimeoutExpired:
        return "red (no end)"
    if done.returncode == 0 and " passed" not in done.stdout:
        return f"ERROR skipped: {done.stdout[-300:]}"
    if done.returncode in (0, FAILED):
        return "red" if done.returncode else "GREEN"
    return f"ERROR {done.returncode}: {done.stdout[-300:]}"


def outcome(mutation: Mutation) -> str:
    with tempfile.TemporaryDirectory(prefix="leadsman-mutation-") as folder:
        tree = copy_tree(Path(folder))
        try:
            switch_off(tree, mutation)
        except ValueError as error:
            return f"ERROR {error}"
        return run_tests(tree, [mutation.test], END_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", default="", metavar="FILE", help="mutations of one file")
    args = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if args.only in mutation.file]
    with tempfile.TemporaryDirectory(prefix="leadsman-mutation-") as folder:
        before = run_tests(copy_tree(Path(folder)), sorted({mutation.test for mutation in chosen}), ALL_END_SECONDS)
    if before != "GREEN":
        print(f"the tests fail before anything is switched off: {before}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(outcome, chosen))
    rows = [(each.defence, each.file, each.test, red) for each, red in zip(chosen, outcomes, strict=True)]
    print("\n".join(align_columns([("defence", "file", "test", "red?"), *rows])))
    survivors = sum(not red.startswith("red") for red in outcomes)
    print(f"{len(chosen)} defences switched off, {survivors} without a test that says so")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
