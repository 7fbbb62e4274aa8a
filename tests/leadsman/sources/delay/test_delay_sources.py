"""What the operator chose runs, in the order in which it counts."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest

from leadsman.decision.policy import Policy
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.state.snapshot import Snapshot

STATE, POLICY = SimpleNamespace(current=Snapshot()), SimpleNamespace(current=Policy())


class MatrixFiles(TypedDict):
    matrix: Path
    metadata: Path


@pytest.fixture
def files(tmp_path: Path) -> MatrixFiles:
    (tmp_path / "matrix").write_text("0 1\n1 0")
    (tmp_path / "nodes").write_text('{"a": 0, "b": 1}')
    return {"matrix": tmp_path / "matrix", "metadata": tmp_path / "nodes"}


async def test_all_of_it_runs_and_ends(files: MatrixFiles, until: Callable[..., Any]) -> None:
    """Groups are those of the static matrix; Goldpinger, where nobody listens, has its problem told."""
    choice = DelaySettings(goldpinger_url="http://127.0.0.1:9", initial_layers_ms=(5.0,), **files)
    chosen = DelaySources(choice, STATE, POLICY)
    assert [source.source for source in chosen.sources] == ["goldpinger", "static"], "in the order that counts"
    tasks = [asyncio.create_task(loop) for _, loop in chosen.tasks()]
    await until(lambda: chosen.estimator.groups and chosen.problems)
    assert chosen.estimator.groups
    assert chosen.estimator.groups.named() == {"5 ms": [["a", "b"]]}
    assert "Cannot connect" in chosen.problems["goldpinger"]
    names = {sample.name for metric in chosen.families() for sample in metric.samples}
    assert {"leadsman_delay_source_up", "leadsman_estimates_fits_total"} <= names
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
