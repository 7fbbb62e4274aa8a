"""All examples of plugins: each is small, has a test of its own, and there is one of each kind."""

import pytest

from leadsman.plugin_loading import METHOD_OF_GROUP
from tests.examples.conftest import PLUGINS

FILES = sorted(PLUGINS.glob("*.py"))


@pytest.mark.parametrize("name", [file.stem for file in FILES])
def test_it_is_at_most_40_lines_and_has_a_test(name: str) -> None:
    assert len((PLUGINS / f"{name}.py").read_text().splitlines()) <= 40
    assert (PLUGINS.parents[1] / f"tests/examples/test_{name}.py").exists()


def test_there_is_one_of_each_kind() -> None:
    assert {group for group in METHOD_OF_GROUP for file in FILES if f'entry-points."{group}"' in file.read_text()} == {
        *METHOD_OF_GROUP
    }
