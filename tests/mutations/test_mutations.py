"""Each mutation still finds its text, and its test; what they prove, `make mutations` runs."""

import pytest

from tests.mutations.__main__ import ROOT
from tests.mutations.table import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.defence for mutation in MUTATIONS])
def test_its_text_is_there_once_and_its_test_exists(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.text) == 1
    file, *names = mutation.test.partition("[")[0].split("::")
    assert all(f" {name}(" in (ROOT / "tests" / file).read_text().replace(f"{name}:", f"{name}(") for name in names)


def test_no_defence_stands_twice() -> None:
    assert len({mutation.defence for mutation in MUTATIONS}) == len(MUTATIONS) >= 20
