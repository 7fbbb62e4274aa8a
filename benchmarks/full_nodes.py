"""Measures what full nodes cost: CPU of filter and of prioritize, and peak memory. `python -m benchmarks.full_nodes`

kube-scheduler sends whole nodes where `nodeCacheCapable` is false. Beside it stand what Telemetry Aware Scheduling took
for the same bodies on a machine of this kind (TAS_CPU_MS), and the CPU that `json.loads` takes for them here: the
yardstick, because a machine half as fast doubles both it and ours. CPU is that of all the server's threads, to the
nanosecond, by request; the median of all requests.

Each pod finds the nodes in another order and CHANGED_RATIO of them changed, as kube-scheduler's goroutines and the
kubelets' heartbeats make it.
"""

import argparse
import json
import random
import re
import statistics
import time
from collections.abc import Collection, Iterator
from itertools import islice

from benchmarks.extender import Case, filter_body, next_uid, start_server, with_uid

TAS_CPU_MS = {"filter": {100: 20.5, 1000: 154, 5000: 848}, "prioritize": {100: 13.3, 1000: 118, 5000: 939}}
"""Verb → nodes → milliseconds of CPU a request."""

CHANGED_RATIO = 0.02
TARGET_SHARE = 1 / 12
TARGET_PEAK_MIB = 120
REQUESTS = {100: 300, 1000: 60, 5000: 15}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, choices=sorted(REQUESTS), help="only this many nodes")
    chosen = parser.parse_args()
    print(f"{'nodes':>5} {'pod':7} {'verb':10} {'ours ms':>8} {'most':>7} {'TAS ms':>7} {'of TAS':>7} {'target':>7} "
          f"{'json.loads':>10} {'of it':>6} {'peak MiB':>8}")  # fmt: skip
    for nodes, requests in REQUESTS.items():
        if chosen.nodes in (None, nodes):
            for pod, labels in (("plain", b""), ("delay", b'"delay_node-00000":"50",')):
                measure(Case("nodes", nodes, pod, nodes, labels, requests))


def measure(case: Case) -> None:
    body = filter_body(case)
    with start_server("benchmarks.extender_server", str(case.state)) as ours:
        kept = {each["metadata"]["name"] for each in json.loads(ours.prioritize_body(body))["Nodes"]["items"]}
        spent_ms: dict[str, list[float]] = {"filter": [], "prioritize": []}
        for sent in islice(changing_bodies(body, kept), case.pods):
            for verb, each in sent.items():
                before_ms = ours.used_cpu_ms()
                ours.ask(verb, each)
                spent_ms[verb].append(ours.used_cpu_ms() - before_ms)
        peak_mib = ours.peak_mib()
    for verb, each in sent.items():
        report(case, verb, spent_ms[verb], json_loads_cpu_ms(each), peak_mib)


def changing_bodies(body: bytes, kept: Collection[str]) -> Iterator[dict[str, bytes]]:
    """Yields what is asked of one pod after the other, by verb. kept: the nodes that prioritize is asked about."""
    rng = random.Random(1)
    begins = b'"Nodes":{"metadata":{},"items":['
    before, after = body.partition(begins)[0] + begins, b']},"NodeNames":null}'
    nodes = {
        node["metadata"]["name"]: json.dumps(node, separators=(",", ":")).encode()
        for node in json.loads(body)["Nodes"]["items"]
    }
    while True:
        uid, names = next_uid(), rng.sample(list(nodes), len(nodes))
        for name in names[: round(CHANGED_RATIO * len(names))]:
            nodes[name] = re.sub(rb'"resourceVersion":"\d+', b'"resourceVersion":"' + uid, nodes[name], count=1)
        rng.shuffle(names)
        asked = {"filter": names, "prioritize": [name for name in names if name in kept]}
        yield {
            verb: with_uid(before + b",".join(map(nodes.__getitem__, each)) + after, uid)
            for verb, each in asked.items()
        }


def json_loads_cpu_ms(body: bytes) -> float:
    spent_ms = []
    for _ in range(3):
        began = time.process_time()
        json.loads(body)
        spent_ms.append((time.process_time() - began) * 1000)
    return statistics.median(spent_ms)


def report(case: Case, verb: str, spent_ms: list[float], json_loads_ms: float, peak_mib: float) -> None:
    ours_ms, most_ms = statistics.median(spent_ms), max(spent_ms)
    tas_ms = TAS_CPU_MS[verb][case.nodes]
    met = "met" if ours_ms <= TARGET_SHARE * tas_ms and peak_mib <= TARGET_PEAK_MIB else "missed"
    print(
        f"{case.nodes:5} {case.pod:7} {verb:10} {ours_ms:8.2f} {most_ms:7.1f} {tas_ms:7.1f} "
        f"{_share(ours_ms, tas_ms):>7} {met:>7} {json_loads_ms:10.1f} "
        f"{_share(ours_ms, json_loads_ms):>6} {peak_mib:8.0f}",
        flush=True,
    )


def _share(ours_ms: float, theirs_ms: float) -> str:
    return f"1/{theirs_ms / ours_ms:.1f}"


if __name__ == "__main__":
    main()
