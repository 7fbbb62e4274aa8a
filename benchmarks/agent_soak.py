"""Whether an agent grows: the work of hours in minutes, its RSS, its objects by type. `python -m benchmarks.agent_soak`

The agent is the real process with the environment of its image, on a real etcd and a scripted API server. Its intervals
are short: it probes, reports and reads the ring 17 to 20 times as often as by default. On the ring nodes come and go,
and so do its 110 pods, which also change and restart, and whose watch and listing end every few seconds. For each
sample, in MB: the hours in which an agent with the default intervals reports as often; what is resident: all, pages of
files, malloc's heap, the rest; what Python's allocator gave out, what of it only waits in free lists, its arenas, what
malloc gave out and keeps free; all objects that the garbage collector follows, and the types of which there are most
more than in the first sample.
"""

import argparse
import asyncio
import itertools
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from urllib.request import urlopen

import msgspec
import psutil

from benchmarks.agent import compiled_image_environ, pod, put, running_agent, write_ring_entries
from benchmarks.counting_agent import Counts
from benchmarks.process_memory import resident
from benchmarks.start import is_ready
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.key_values import Delete
from leadsman.state.records import RingEntry
from leadsman.testbed.api_server_thread import ApiServerThread
from leadsman.testbed.etcd import Etcd
from leadsman.testbed.fake_api_server import FakeApiServer

NODES, PEERS, PODS = 100, 16, 110
PUSH_SECONDS, DEFAULT_PUSH_SECONDS = 0.3, 5.0
FAST = (
    f"--push-interval-seconds={PUSH_SECONDS}",
    "--call-timeout-seconds=0.3",
    "--probe-interval-seconds=0.05",
    "--window-seconds=1.5",
    "--health-summary-seconds=0.75",
    "--observe-seconds=1.5",
)
SCRAPE_EVERY_SECONDS = 1.0
CHANGES_PER_SECOND = 20
"""Fewer restarts than the agent looks up Events for, which is five a second."""
WATCH_CUT_EVERY = 100
"""Changes of pods."""
TYPES_SHOWN = 6
COUNTS_WITHIN_SECONDS = 30.0
HEADINGS = (
    "      resident, MB                    allocated, MB",
    "hours    all    file    heap    anon objects of free  arenas  blocks    free objects  more than at first",
    "                                               lists",
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=int, default=600)
    options.add_argument("--samples", type=int, default=10)
    args = options.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        compiled_image_environ() as environ,
        Etcd(Path(folder) / "etcd") as etcd,
        ApiServerThread() as api,
    ):
        counts = Path(folder) / "counts.json"
        program = [sys.executable, "-m", "benchmarks.counting_agent", str(counts)]
        with running_agent(PEERS, etcd.client_url, api.url, environ, program, FAST) as (process, url):
            done = threading.Event()
            threads = [
                threading.Thread(target=change_pods, args=(api, done)),
                threading.Thread(target=lambda: asyncio.run(change_ring(etcd.client_url, done))),
            ]
            while not is_ready(f"{url}/metrics"):
                time.sleep(0.1)
            for each in threads:
                each.start()
            try:
                watch(process, url, counts, args.seconds / args.samples, args.samples)
            finally:
                done.set()
                for each in threads:
                    each.join()


def watch(process: psutil.Process, url: str, counts: Path, pause_seconds: float, samples: int) -> None:
    print("\n".join(HEADINGS))
    first: Counter[str] = Counter()
    for number in range(1, samples + 1):
        for _ in range(round(pause_seconds / SCRAPE_EVERY_SECONDS)):
            time.sleep(SCRAPE_EVERY_SECONDS)
            urlopen(f"{url}/metrics", timeout=60).read()
        memory, asked = resident(process.pid), ask(process, counts)
        now, allocated = Counter(asked.objects), asked.allocated
        first = first or now
        hours = number * pause_seconds / PUSH_SECONDS * DEFAULT_PUSH_SECONDS / 3600
        sizes = (memory.total, memory.file, memory.heap, memory.anonymous, *msgspec.structs.astuple(allocated))
        figures = "".join(f"{size / 1e6:8.2f}" for size in sizes)
        more = ", ".join(f"{name} +{count}" for name, count in (now - first).most_common(TYPES_SHOWN))
        print(f"{hours:5.2f}{figures}{now.total():8}  {more}", flush=True)


def ask(process: psutil.Process, counts: Path) -> Counts:
    """What the agent writes when it is asked."""
    counts.unlink(missing_ok=True)
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + COUNTS_WITHIN_SECONDS
    while not counts.exists():
        if time.monotonic() > deadline or not process.is_running():
            raise RuntimeError("the agent does not write its counts")
        time.sleep(0.05)
    return msgspec.json.decode(counts.read_bytes(), type=Counts)


def change_pods(api: ApiServerThread, done: threading.Event) -> None:
    """Each pod is changed in turn: touched, restarted, or replaced by one of another name."""
    serial = itertools.count()
    bodies = [pod(next(serial)) for _ in range(PODS)]
    for body in bodies:
        put(api, body)
    for number in itertools.count():
        if done.wait(1 / CHANGES_PER_SECOND):
            return
        body = bodies[number % PODS]
        if number % 7 == 0:
            api.delete(f"/api/v1/namespaces/default/pods/{body['metadata']['name']}")
            body = bodies[number % PODS] = pod(next(serial))
        elif number % 5 == 0:
            container = body["status"]["containerStatuses"][0]
            container["restartCount"] += 1
            container["lastState"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
        else:
            body["metadata"].setdefault("annotations", {})["touched"] = str(number)
        put(api, body)
        if number % WATCH_CUT_EVERY == 0:
            api.call(FakeApiServer.compact)  # The next watch is refused, so the pods are listed again.
            api.call(FakeApiServer.end_watches)


async def change_ring(etcd_url: str, done: threading.Event) -> None:
    """Every second a fifth of the nodes leaves or is back."""
    rng = Random(1)
    while not done.wait(1.0):
        store = EtcdStore(EtcdAccess((etcd_url,)))
        gone = rng.sample(range(NODES), NODES // 5)
        await store.write([Delete(keys.record_key(f"node-{number:05}", RingEntry)) for number in gone])
        await store.close()
        done.wait(1.0)
        await write_ring_entries(etcd_url, [f"127.1.0.{number}" for number in range(NODES)])


if __name__ == "__main__":
    main()
