"""What a probe costs and how often its value is impossible: ours, icmplib and pythonping on the same targets.

    python -m benchmarks.prober [--targets 16 1000] [--rounds 20 3]

A round is one probe to every target: ours spreads it over a second as in the agent, the others go as fast as they do
(icmplib with its 50 concurrent tasks, pythonping with a thread a target). Each contender runs in a process of its own.
Targets: 127.2.0.0/16, and as root also hosts 20 ms away. Impossible is a value that is not positive, that is shorter
than the path, or longer than the second that a probe may take. p99: the paths' own is under 1 ms above their delay,
when they are not flooded.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from agent.rtt.peer import Answered, Peer, ProbeResult, ProbeSettings
from agent.rtt.peer_stats import Probe, nearest_rank
from agent.rtt.prober import Prober
from leadsman.testbed.virtual_network import VirtualNetwork, why_unavailable

TIMEOUT_MS = 1000.0
DELAY_MS = 20.0
HOSTS = 5
COLUMNS = "{:<8} {:>7}  {:<10} {:>12} {:>6} {:>10} {:>9} {:>10} {:>8} {:>8}"
FIELDS = (
    "path",
    "targets",
    "prober",
    "CPU ms/probe",
    "x ours",
    "s a round",
    "answered",
    "impossible",
    "p50 ms",
    "p99 ms",
)

Values = list[float | None]
"""Milliseconds; None: no answer."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, nargs="+", default=[16, 1000])
    options.add_argument("--rounds", type=int, nargs="+", default=[20, 3])
    options.add_argument("--only", choices=CONTENDERS, help="run this one here and print its result as JSON")
    options.add_argument("--block", default="127.2.{}.{}", help="with --only: format of the addresses")
    options.add_argument("--least-ms", type=float, default=0.0, help="with --only: what the path takes at least")
    args = options.parse_args()
    sizes = list(zip(args.targets, args.rounds, strict=True))
    if args.only:
        print(json.dumps(measure(CONTENDERS[args.only], *sizes[0], args.block, args.least_ms)))
    else:
        print(COLUMNS.format(*FIELDS))
        compare("loopback", sizes, [])
        compare_far(sizes)


def compare_far(sizes: list[tuple[int, int]]) -> None:
    if why_not := why_unavailable():
        print(f"no path with delay: {why_not}")
        return
    hosts = [f"far-{number}" for number in range(HOSTS)]
    with VirtualNetwork(["here", *hosts], {("here", host): DELAY_MS for host in hosts}) as net:
        options = ["--block", "10.214.{}.{}", "--least-ms", str(DELAY_MS)]
        compare(f"{DELAY_MS:g} ms", sizes, options, net.command("here", []))


def compare(path: str, sizes: list[tuple[int, int]], options: list[str], prefix: Sequence[str] = ()) -> None:
    for targets, rounds in sizes:
        results = {name: measure_in_process(name, targets, rounds, options, prefix) for name in CONTENDERS}
        for name, result in results.items():
            print(row(path, targets, rounds, name, result, results["ours"]["cpu_ms"]), flush=True)


def row(path: str, targets: int, rounds: int, name: str, result: dict[str, float], ours_ms: float) -> str:
    return COLUMNS.format(
        path,
        targets,
        name,
        f"{result['cpu_ms']:.3f}",
        f"{result['cpu_ms'] / ours_ms:.1f}",
        f"{result['wall_seconds'] / rounds:.2f}",
        f"{result['answered'] / result['sent']:.1%}",
        f"{result['impossible'] / max(1, result['answered']):.1%}",
        f"{result['p50_ms']:.2f}",
        f"{result['p99_ms']:.2f}",
    )


def measure_in_process(
    name: str, targets: int, rounds: int, options: list[str], prefix: Sequence[str]
) -> dict[str, float]:
    """`measured` in a process of its own."""
    argv = [
        sys.executable,
        "-m",
        "benchmarks.prober",
        "--only",
        name,
        "--targets",
        str(targets),
        "--rounds",
        str(rounds),
    ]
    done = subprocess.run([*prefix, *argv, *options], check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(
    probe: Callable[[Sequence[str], int], Values], targets: int, rounds: int, block: str, least_ms: float
) -> dict[str, float]:
    addresses = [block.format(1 + n % HOSTS, 1 + n // HOSTS) for n in range(targets)]
    probe(addresses[:1], 1)  # imports and first-use costs
    cpu, wall = cpu_seconds(), time.monotonic()
    values = probe(addresses, rounds)
    cpu, wall = cpu_seconds() - cpu, time.monotonic() - wall
    answered = sorted(value for value in values if value is not None)
    return {
        "cpu_ms": cpu / len(values) * 1e3,
        "wall_seconds": wall,
        "sent": len(values),
        "answered": len(answered),
        "impossible": sum(not (value > 0 and least_ms <= value <= TIMEOUT_MS) for value in answered),
        "p50_ms": nearest_rank(answered, 0.50) or 0.0,
        "p99_ms": nearest_rank(answered, 0.99) or 0.0,
    }


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def leadsman_prober(addresses: Sequence[str], rounds: int) -> Values:
    return asyncio.run(run_ours(addresses, rounds))


async def run_ours(addresses: Sequence[str], rounds: int) -> Values:
    prober, values = Prober(ProbeSettings()), list[float | None]()
    record_result = prober.stats.record_result

    def record_and_keep(probe: Probe, sent: float, result: ProbeResult) -> None:
        values.append(result.rtt_seconds * 1e3 if isinstance(result, Answered) else None)
        record_result(probe, sent, result)

    prober.stats.record_result = record_and_keep  # type: ignore[method-assign]
    prober.set_peers(Peer(address, address) for address in addresses)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(rounds):
            await prober.run()
    return values


def icmplib(addresses: Sequence[str], rounds: int) -> Values:
    from icmplib import multiping

    hosts = [host for _ in range(rounds) for host in multiping(addresses, count=1, timeout=1)]
    return [host.rtts[0] if host.rtts else None for host in hosts]


def pythonping(addresses: Sequence[str], rounds: int) -> Values:
    with ThreadPoolExecutor(len(addresses)) as threads:
        return [value for _ in range(rounds) for value in threads.map(pythonping_one, addresses)]


def pythonping_one(address: str) -> float | None:
    from pythonping import ping

    (response,) = ping(address, count=1, timeout=1)
    return response.time_elapsed * 1e3 if response.success else None


CONTENDERS = {"ours": leadsman_prober, "icmplib": icmplib, "pythonping": pythonping}


if __name__ == "__main__":
    main()
