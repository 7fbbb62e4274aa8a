"""Measures all of Leadsman's processes in a cluster of three nodes: `python -m benchmarks.small_cluster`

Three agents, an extender, a controller, and one member of etcd behind its gateway, which know each other by tokens as
installed. The nodes are addresses of loopback, the API server is scripted and has 30 pods a node, and kube-scheduler
comes without TLS: one pod a second is filtered and scored, and all are scraped every 15 s. Memory is RSS at the end,
summed: nothing is shared between three machines.
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from leadsman.runtime.text_table import align_columns
from leadsman.testbed.etcd import free_ports
from tests.leadsman.etcd.locked_members import LockedMembers
from tests.leadsman.etcd.test_locked_members import locked_members
from tests.leadsman.etcd.test_stolen_token import manifest_flags
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.scripted_api_server import ApiServerThread

NODES = ("node-0", "node-1", "node-2")
PODS_A_NODE = 30
WARM_UP_SECONDS = 60.0
SCRAPE_EVERY_SECONDS = 15
KINDS = ("agent", "extender", "controller", "etcd-member", "etcd")
TARGET_MB, TARGET_RATIO = 250, 0.03


def fill(api: ApiServerThread) -> None:
    for node in NODES:
        allocatable = {"cpu": "4", "memory": "4Gi", "pods": "110"}
        api.put(f"/api/v1/nodes/{node}", {"metadata": {"uid": node}, "status": {"allocatable": allocatable}})
        for number in range(PODS_A_NODE):
            spec = {"nodeName": node, "containers": [{"name": "app"}]}
            path = f"/api/v1/namespaces/default/pods/{node}-{number}"
            api.put(path, {"metadata": {"labels": {"app": "web"}}, "spec": spec, "status": {"phase": "Running"}})


def start(members: LockedMembers, api_url: str, folder: Path) -> Sequence[LeadsmanProcess]:
    """The agents, then the extender and the controller."""

    def process(kind: str, token: str, url: str, *flags: str) -> LeadsmanProcess:
        shared = [f"--etcd={','.join(members.urls)}", f"--etcd-ca={members.certs / 'etcd-ca.crt'}"]
        shared += [f"--etcd-token-file={members.token(token)}", f"--kube-api={api_url}"]
        return LeadsmanProcess([kind, *shared, *flags], url, url, folder / f"{kind}-{token}.log")

    (port, ops, controller) = free_ports(3)
    found = []
    for number, node in enumerate(NODES):
        address = f"127.0.0.{number + 2}"
        who = (f"--node-name={node}", f"--address={address}", f"--owner={node}", f"--listen={address}:9102")
        found.append(process("agent", node, f"http://{address}:9102", *who))
    listen = (f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops}", "--telemetry=agents", "--plain-http")
    extender = process("extender", "of-extender", f"http://127.0.0.1:{ops}", *listen)
    extender.url = f"http://127.0.0.1:{port}"
    lead = (f"--listen=127.0.0.1:{controller}", "--lease-namespace=default")
    return [*found, extender, process("controller", "of-controller", f"http://127.0.0.1:{controller}", *lead)]


def until_ready(processes: Sequence[LeadsmanProcess]) -> None:
    while not all(each.get("/readyz")[0] == 200 for each in processes):
        time.sleep(0.5)


def load(processes: Sequence[LeadsmanProcess], seconds: float) -> None:
    extender, began = processes[len(NODES)], time.monotonic()
    for number in itertools.count():
        if time.monotonic() - began > seconds:
            return
        bound = {"delay_node-0": "25"} if number % 2 else {}
        extender.ask("filter", NODES, bound)
        extender.ask("prioritize", NODES, bound)
        if number % SCRAPE_EVERY_SECONDS == 0:
            for each in processes:
                each.get("/metrics")
        time.sleep(max(0.0, began + number + 1 - time.monotonic()))


def kind_of(process: psutil.Process) -> str:
    words = process.cmdline()
    return next((kind for kind in KINDS if kind in words), "etcd" if process.name() == "etcd" else "")


async def measure(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name, ApiServerThread() as api:
        folder = Path(name)
        fill(api)
        async with locked_members(folder, manifest_flags(), count=1) as members:
            processes = start(members, api.url, folder)
            await asyncio.to_thread(until_ready, processes)
            await asyncio.to_thread(load, processes, WARM_UP_SECONDS)
            all_of_them = [each for each in psutil.Process().children(recursive=True) if kind_of(each)]
            before = [sum(each.cpu_times()[:2]) for each in all_of_them]
            await asyncio.to_thread(load, processes, seconds)
            print("\n".join(align_columns(_rows(all_of_them, before, seconds))))


def _rows(processes: Sequence[psutil.Process], before: Sequence[float], seconds: float) -> list[tuple[str, ...]]:
    rows, all_mb, all_ratio = [("PROCESS", "COUNT", "RSS MB, ALL", "OF A CORE, ALL")], 0.0, 0.0
    for kind in KINDS:
        ours = [(each, cpu) for each, cpu in zip(processes, before, strict=True) if kind_of(each) == kind]
        megabytes = sum(each.memory_info().rss for each, _ in ours) / 1e6
        ratio = sum(sum(each.cpu_times()[:2]) - cpu for each, cpu in ours) / seconds
        rows.append((kind, str(len(ours)), f"{megabytes:.0f}", f"{ratio:.2%}"))
        all_mb, all_ratio = all_mb + megabytes, all_ratio + ratio
    return [
        *rows,
        ("all", str(len(processes)), f"{all_mb:.0f} of {TARGET_MB}", f"{all_ratio:.2%} of {TARGET_RATIO:.0%}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    asyncio.run(measure(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
