"""Runs our extender with a full and fresh state of N nodes, for `benchmarks.extender`, and prints its port.

Each node knows 16 peers and seven hardware values, and 200 nodes a second report, as agents of a large cluster do.
"""

import argparse
import asyncio
import gc
import random
import sys
import time
from types import MappingProxyType

from msgspec import structs

from extender.app import create_app
from extender.decider import Decider
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.run import SWITCH_INTERVAL_SECONDS
from extender.worker_pool import WorkerPool
from leadsman.runtime.http_server import serve
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.wiring import InputSources
from leadsman.state import metric_names
from leadsman.state.records import Hardware, Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

PEERS = 16
PUSH_INTERVAL_SECONDS = 60.0
REPORTS_PER_TICK, TICK_SECONDS = 10, 0.05
REFERENCE = "node-00000"


class ChangingState:
    """Keeps a state that is fresh for minutes and changes as it is read."""

    def __init__(self, nodes: int) -> None:
        self._rng = random.Random(1)
        self._names = [f"node-{number:05}" for number in range(nodes)]
        self.current = Snapshot({name: self._node(name) for name in self._names}, revision=1, cluster_id="bench")

    async def report(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            changed = {name: self._node(name) for name in self._rng.sample(self._names, REPORTS_PER_TICK)}
            nodes = MappingProxyType({**self.current.nodes, **changed})
            self.current = structs.replace(self.current, nodes=nodes, revision=self.current.revision + 1)

    def _node(self, name: str) -> NodeState:
        peers = dict.fromkeys([REFERENCE, *self._rng.sample(self._names, min(PEERS, len(self._names)))])
        return NodeState(
            Identity("pod", 1, "10.0.0.1"),
            Heartbeat(1, 1, PUSH_INTERVAL_SECONDS),
            Latency({peer: self._window() for peer in peers if peer != name}),
            Hardware({metric: self._rng.random() for metric in METRICS}),
            time.monotonic(),
        )

    def _window(self) -> PeerLatency:
        ms = self._rng.uniform(0.1, 100)
        return PeerLatency(30, 30, p50_ms=ms, p95_ms=2 * ms, min_ms=ms / 2, jitter_ms=ms / 10)


METRICS = [
    metric_names.CPU_PRESSURE,
    metric_names.MEMORY_PRESSURE,
    metric_names.IO_PRESSURE,
    metric_names.CPU_BUSY,
    metric_names.LOAD_PER_CPU,
    metric_names.MEMORY_AVAILABLE,
    metric_names.TEMPERATURE,
]


async def main(nodes: int) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.freeze()
    metrics, workers = ExtenderMetrics(), WorkerPool()
    changing, policy = ChangingState(nodes) if nodes else None, PolicyFile(None)
    state = changing or EmptyState()
    sources = InputSources(state, policy, DelaySources(DelaySettings(), state, policy), time.monotonic)
    app = create_app(Decider(sources, journal=Journal(), metrics=metrics, workers=workers))
    async with serve(app, "127.0.0.1", 0) as port:
        print(port, flush=True)
        await (changing.report() if changing else asyncio.Event().wait())


class EmptyState:
    current = Snapshot()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("nodes", type=int)
    asyncio.run(main(parser.parse_args().nodes))
