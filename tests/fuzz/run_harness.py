"""`python -m tests.fuzz.run_harness NAME [libFuzzer's arguments]`: one harness under atheris until something breaks."""

import sys
from random import Random

import atheris

with atheris.instrument_imports(include=["agent", "extender", "leadsman"]):
    from tests.fuzz.harnesses import HARNESSES

from tests.fuzz.mutation import mutate_document, mutate_text
from tests.fuzz.oracle import check


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Half of the mutations are libFuzzer's own, a quarter of what the bytes say, the others of the bytes as text."""
    rng = Random(seed)
    chosen = rng.randrange(4)
    mutated = mutate_document(data, rng) if chosen == 0 else mutate_text(data, rng) if chosen == 1 else None
    return (atheris.Mutate(data, max_size) if mutated is None else mutated)[:max_size]


def main() -> None:
    name, *arguments = sys.argv[1:]
    harness = HARNESSES[name]
    command = [sys.argv[0], *arguments, f"-max_len={harness.max_bytes}"]
    atheris.Setup(command, lambda data: check(harness, data), custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
