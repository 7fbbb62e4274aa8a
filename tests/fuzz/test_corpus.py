"""What fuzzing has found, and the inputs it begins with, replayed: `make fuzz` looks for more."""

import random
from pathlib import Path

import pytest

from tests.fuzz.harnesses import HARNESSES
from tests.fuzz.mutation import mutate_document, mutate_text
from tests.fuzz.oracle import check

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
INPUTS = sorted(path for path in CORPUS.glob("*/*"))


def test_each_harness_has_inputs() -> None:
    assert {path.parent.name for path in INPUTS} == HARNESSES.keys()


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_parser_raises_only_what_it_documents(path: Path) -> None:
    check(HARNESSES[path.parent.name], path.read_bytes())


@pytest.mark.parametrize("name", HARNESSES)
def test_a_parser_raises_only_what_it_documents_for_mutations(name: str) -> None:
    """A few hundred from a fixed seed, for machines without atheris."""
    rng = random.Random(7)
    for path in sorted((CORPUS / name).iterdir()):
        data = path.read_bytes()[:4096]
        for _ in range(60):
            check(HARNESSES[name], mutate_document(data, rng) or mutate_text(data, rng))
