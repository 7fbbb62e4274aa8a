"""How long answers take while plugins loop, exit, take 1 GiB or return NaN: `python -m benchmarks.plugins`.

An extender's real server, asked about all nodes again and again: without plugins, with a good one, and with each
hostile one beside the good one. An answer has 200 ms; "late" is one that was made without a decision at their end.
The exit status is 1 when any answer was late or took longer.
"""

import argparse
import asyncio
import gc
import json
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

from benchmarks.extender_server import ChangingState
from extender.app import create_app
from extender.decider import DecisionCore
from extender.metrics import ExtenderMetrics
from extender.plugins.host import PluginHost
from extender.worker_pool import WorkerPool
from leadsman.decision.policy import PluginsPolicy, Policy, ScorePluginPolicy
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.http_server import serve
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.input_sources import InputSources

SOURCE = """
import math, os, time

class Good:
    api_version = 1
    def score(self, pod, nodes):
        return {node.name: node.hardware["load1_per_cpu"] for node in nodes}

class Loops(Good):
    def score(self, pod, nodes):
        while True:
            pass

class Sleeps(Good):
    def score(self, pod, nodes):
        time.sleep(5)

class Exits(Good):
    def score(self, pod, nodes):
        os._exit(1)

class Eats(Good):
    def score(self, pod, nodes):
        return {"eaten": len(bytearray(1 << 30))}

class Nan(Good):
    def score(self, pod, nodes):
        return {node.name: math.nan for node in nodes}
"""
TARGET_MS = 200.0
"""Of every answer, as every decision."""

HOSTILE = ("loops", "sleeps", "exits", "eats", "nan")


class Fixed(Struct):
    """A state or a policy that stands still."""

    current: Any
    problem: ProblemLog = ProblemLog(logging.getLogger(__name__), "", "")


def install(folder: Path) -> None:
    """The plugins, as a package that Python finds."""
    (folder / "strangers.py").write_text(SOURCE)
    info = folder / "strangers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    points = "\n".join(f"{name} = strangers:{name.capitalize()}" for name in ("good", *HOSTILE))
    (info / "entry_points.txt").write_text(f"[leadsman.scores]\n{points}\n")
    sys.path.insert(0, str(folder))


async def measure(names: tuple[str, ...], count: int, seconds: float) -> tuple[list[float], float]:
    """Milliseconds of each answer, and how many were made without a decision at their deadline."""
    policy = Policy(plugins=PluginsPolicy(scores=tuple(ScorePluginPolicy(name) for name in names)))
    state, fixed = Fixed(ChangingState(count).current), Fixed(policy)
    delays = DelaySources(DelaySettings(), state, fixed)
    sources = InputSources(state, fixed, delays, time.monotonic)
    host = PluginHost(lambda: policy, sources.current_inputs)
    metrics, workers = ExtenderMetrics(), WorkerPool()
    core = DecisionCore(host.filter_nodes, host.score_nodes)
    body = json.dumps({"Pod": {"metadata": {"name": "web"}}, "NodeNames": [f"node-{n:05}" for n in range(count)]})
    gc.collect()  # The nodes of the last case are no work of this one's.
    gc.freeze()  # As the extender does.
    running = asyncio.create_task(host.run())
    milliseconds = list[float]()
    app = create_app(sources, metrics=metrics, workers=workers, core=core)
    async with serve(app, "127.0.0.1", 0, ServerLimits(), None) as port, aiohttp.ClientSession() as session:
        await asyncio.sleep(3.0)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            async with session.post(f"http://127.0.0.1:{port}/prioritize", data=body) as answer:
                await answer.read()
            milliseconds.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    workers.close()
    host.close()
    labels = {"verb": "prioritize", "result": "neutral", "reason": "overran"}
    late = metrics.registry.get_sample_value("leadsman_extender_decisions_total", labels) or 0
    return milliseconds, late


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    args = parser.parse_args()
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder))
        plain, missed = 0.0, list[str]()
        for names in ((), ("good",), *((name, "good") for name in HOSTILE)):
            milliseconds, late = await measure(names, args.nodes, args.seconds)
            middle, most = statistics.median(milliseconds), max(milliseconds)
            plain, beside = plain or middle, " + ".join(names) or "no plugin"
            if late or most > TARGET_MS:
                missed.append(beside)
            print(
                f"{beside:<14} {len(milliseconds):>5} answers   p50 {middle:6.1f}"
                f"   p99 {statistics.quantiles(milliseconds, n=100)[98]:6.1f}   most {most:6.1f} ms"
                f"   ratio of p50 to no plugin {middle / plain:5.2f}   late {late:g}"
                f"   {'MISSED' if beside in missed else 'met'}: every answer within {TARGET_MS:g} ms",
                flush=True,
            )
    if missed:
        sys.exit(f"answers were late beside: {', '.join(missed)}")


if __name__ == "__main__":
    asyncio.run(main())
