"""Plugins of examples/plugins, as modules."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

PLUGINS = Path(__file__).parents[2] / "examples/plugins"

Example = Callable[[str], ModuleType]


@pytest.fixture
def example() -> Example:
    """`example("quiet")`: the module of that file."""

    def loaded(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, PLUGINS / f"{name}.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded
