"""Plugins of an installed package, most of them hostile, and an extender's host that runs them."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from extender.plugins.host import PluginHost
from extender.plugins.process import Plugin
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy, parse
from leadsman.decision.view import Views
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.state.snapshot import NodeState, Snapshot
from tests.extender.plugins import strangers
from tests.installed_package import install
from tests.testbed.background import running
from tests.waiting import until

A = TypeVar("A")

NODES = tuple(f"node-{number}" for number in range(200))
WITHIN_SECONDS = 60.0


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with all `strangers`, by their names in lower case, is installed, as far as Python can tell."""
    entry_points = ""
    for kind, method in (("scores", "score"), ("filters", "refuse")):
        names = [name for name, made in vars(strangers).items() if hasattr(made, method)]
        entry_points += f"[leadsman.{kind}]\n" + "".join(f"{name.lower()} = strangers:{name}\n" for name in names)
    install(tmp_path, monkeypatch, entry_points, {"strangers": inspect.getsource(strangers)})


def snapshot() -> Snapshot:
    """Nodes with a metric `load1_per_cpu` of their number / 200."""
    agent, beat, now = Identity("agent", 1, "10.0.0.1", "a"), Heartbeat(1, 1, 60.0), time.monotonic()
    measured = [{"load1_per_cpu": at / 200, "network_receive_bytes_per_second": at * 1e6} for at in range(len(NODES))]
    states = [NodeState(agent, beat, hardware=Hardware(each), changed_at=now) for each in measured]
    return Snapshot(dict(zip(NODES, states, strict=True)))


def policy(*, scores: str = "", filters: str = "", more: str = "") -> Policy:
    """Of plugins by name; `more`: fields of each."""
    listed = {
        kind: ", ".join(f"{{name: {name}{more}}}" for name in names.split())
        for kind, names in (("scores", scores), ("filters", filters))
    }
    return parse(f"plugins: {{scores: [{listed['scores']}], filters: [{listed['filters']}]}}")


class Hosted:
    """A host on a snapshot."""

    def __init__(self, decided_by: Policy) -> None:
        self.policy, self.snapshot, self._views = decided_by, snapshot(), Views()
        self.host = PluginHost(lambda: self.policy, self.inputs)

    def inputs(self) -> DecisionInputs:
        return DecisionInputs(self.snapshot, self.policy, time.monotonic(), self._views)

    @property
    def plugins(self) -> dict[str, Plugin]:
        return {plugin.name: plugin for plugin in self.host._plugins.values()}

    async def until_answer(self, ask: Callable[[], Awaitable[A]], is_expected: Callable[[A], object]) -> A:
        """What `ask` returns once it is as expected. On a busy machine an honest plugin may be late, too."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while not is_expected(answer := await ask()):
                for plugin in self.plugins.values():
                    plugin.failures_in_a_row, plugin._off_until = 0, 0.0
                await asyncio.sleep(0.01)
        return answer


Hosts = Callable[..., AbstractAsyncContextManager[Hosted]]


@pytest.fixture
def hosts(installed: None) -> Hosts:
    """hosts(policy): a host that runs until the block ends, which begins once all plugins are active."""
    return _hosted


@asynccontextmanager
async def _hosted(decided_by: Policy, *, become_active: bool = True) -> AsyncIterator[Hosted]:
    hosted = Hosted(decided_by)
    try:
        async with running(hosted.host.run()):
            await until(lambda: hosted.plugins)
            await until(lambda: not become_active or all(plugin.is_active for plugin in hosted.plugins.values()))
            yield hosted
    finally:
        hosted.host.close()
