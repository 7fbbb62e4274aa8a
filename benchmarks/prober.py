"""Measures what a probe costs and how often its value is impossible: ours and pythonping on the same targets.

    python -m benchmarks.prober [--targets 16 1000] [--rounds 20 3]

A round is one probe to every target: ours spreads it over a second as in the agent, pythonping goes as fast as it does,
with a thread a target. Each runs in a process of its own, as root, to hosts 20 ms away. Impossible is a value that is
shorter than the path, or longer than the second that a probe may take.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from agent.rtt.peer import Answered, Peer, ProbeResult, ProbeSettings
from agent.rtt.peer_stats import Probe, nearest_rank
from agent.rtt.prober import Prober
from leadsman.runtime.text_table import align_columns
from leadsman.testbed.virtual_network import VirtualNetwork

TIMEOUT_MS = 1000.0
DELAY_MS = 20.0
HOSTS = 5

Values = list[float | None]
"""Milliseconds; None: no answer."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, nargs="+", default=[16, 1000])
    options.add_argument("--rounds", type=int, nargs="+", default=[20, 3])
    options.add_argument("--only", choices=PROBERS, help="run this one here and print its row as JSON")
    args = options.parse_args()
    sizes = list(zip(args.targets, args.rounds, strict=True))
    if args.only:
        print(json.dumps(measure(args.only, *sizes[0])))
        return
    rows = [("TARGETS", "PROBER", "CPU MS/PROBE", "ANSWERED", "IMPOSSIBLE", "P50 MS", "P99 MS")]
    hosts = [f"far-{number}" for number in range(HOSTS)]
    with VirtualNetwork(["here", *hosts], {("here", host): DELAY_MS for host in hosts}) as net:
        for targets, rounds in sizes:
            for name in PROBERS:
                command = [sys.executable, "-m", "benchmarks.prober", "--only", name]
                command += ["--targets", str(targets), "--rounds", str(rounds)]
                done = subprocess.run(net.command("here", command), check=True, stdout=subprocess.PIPE, text=True)
                rows.append(tuple(json.loads(done.stdout)))
    print("\n".join(align_columns(rows)))


def measure(name: str, targets: int, rounds: int) -> tuple[str, ...]:
    addresses = [f"10.214.{1 + number % HOSTS}.{1 + number // HOSTS}" for number in range(targets)]
    probe = PROBERS[name]
    probe(addresses[:1], 1)  # imports and first-use costs
    began = cpu_seconds()
    values = probe(addresses, rounds)
    cpu_ms = (cpu_seconds() - began) * 1e3 / len(values)
    answered = sorted(value for value in values if value is not None)
    impossible = sum(not DELAY_MS <= value <= TIMEOUT_MS for value in answered) / max(1, len(answered))
    p50, p99 = (f"{nearest_rank(answered, share) or 0.0:.2f}" for share in (0.50, 0.99))
    return str(targets), name, f"{cpu_ms:.3f}", f"{len(answered) / len(values):.1%}", f"{impossible:.1%}", p50, p99


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


def pythonping(addresses: Sequence[str], rounds: int) -> Values:
    with ThreadPoolExecutor(len(addresses)) as threads:
        return [value for _ in range(rounds) for value in threads.map(pythonping_one, addresses)]


def pythonping_one(address: str) -> float | None:
    from pythonping import ping

    (response,) = ping(address, count=1, timeout=1)
    return response.time_elapsed * 1e3 if response.success else None


PROBERS = {"ours": leadsman_prober, "pythonping": pythonping}


if __name__ == "__main__":
    main()
