"""`leadsman demo`: five nodes, a pod with a delay bound placed as kube-scheduler asks, and a link that is lost."""

import re
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from leadsman.cli.demo import scheduler_request
from leadsman.cli.demo.house import DemoFailed, House, PageAddress, say, why_only_loopback
from leadsman.runtime.text_table import align_columns
from leadsman.testbed import user_namespace
from leadsman.testbed.virtual_network import VirtualNetwork

NODES = {"edge-1": 0.0, "edge-2": 2.0, "edge-3": 9.0, "metro-1": 22.0, "cloud-1": 45.0}
"""Maps each node to its round trip from edge-1 in ms. The nodes are on one line, so these are also the distances
between any two."""

REFERENCE_NODE, WITHIN_MS = next(iter(NODES)), "25"
LOST_LINK = ("edge-3", "metro-1")
HEADER = ["NODE", "RTT p50", "p95", "LOSS", "VERDICT", "SCORE", "REASON"]
WITHIN_SECONDS = 60.0
WINDOW_SECONDS = 6.0


def run(page: PageAddress) -> None:
    """Runs the demo. DemoFailed, or what testbed raises when this machine cannot do it."""
    missing = why_only_loopback("delays")
    between = {(one, other): abs(NODES[one] - NODES[other]) for one, other in combinations(NODES, 2)}
    if missing is None:
        within = " in a user namespace" if user_namespace.is_inside() else ""
        say(f"network    {len(NODES)} network namespaces{within}; a forwarder delays packets by 2 to 45 ms")
    else:
        say(f"network    loopback addresses, so all delays are near 0 ({missing})")
    with House(page, list(NODES), None if missing else between) as demo:
        demo.start_agents("--probe-interval-seconds=0.2", f"--window-seconds={WINDOW_SECONDS:g}")
        extender = demo.start_extender()
        say(f"started    an etcd, an extender and the agents of {', '.join(NODES)}")
        _wait(demo)
        _show(demo, extender)
        if demo.net:
            _lose_a_link(demo, demo.net)
        demo.stay("nodes", "explain cap-00000", f"delay {' '.join(LOST_LINK)}")


def _wait(demo: House) -> None:
    """Waits until every node has measured all its peers for a whole window of probes.

    A median over less still shows how busy the machine was while everything started.
    """
    complete_since = float("inf")

    def full() -> bool:
        nonlocal complete_since
        measured = sum(
            node["status"] == "fresh"
            and len(node["peers_p50_ms"]) == len(NODES) - 1
            and None not in node["peers_p50_ms"].values()
            for node in scheduler_request.reporting_nodes(demo.api)
        )
        say(f"measuring  {measured} of {len(NODES)} nodes measured all their peers", for_now=True)
        complete_since = min(complete_since, time.monotonic()) if measured == len(NODES) else float("inf")
        return time.monotonic() - complete_since >= WINDOW_SECONDS

    demo.wait_until(full, "every node measured all its peers", WITHIN_SECONDS, pause=0.2)
    say(f"measuring  {len(NODES)} of {len(NODES)} nodes measured all their peers for {WINDOW_SECONDS:g} s")


def _show(demo: House, extender: str) -> None:
    body = scheduler_request.captured_args(list(NODES), {f"delay_{REFERENCE_NODE}": WITHIN_MS})
    scheduler_request.filter_and_prioritize(extender, body)
    pod = scheduler_request.pod_name(body)
    explanation = scheduler_request.explanation(demo.api, pod)
    print(f'\n1. Pod {pod} has the label delay_{REFERENCE_NODE}: "{WITHIN_MS}": at most {WITHIN_MS} ms from there.')
    print("   kube-scheduler asks with a request captured from a real one.\n")
    print(*align_columns([HEADER, *(_row(demo, node) for node in explanation["nodes"])]), sep="\n")
    print(f"\nAnswer: {explanation['headline']}", flush=True)


def _row(demo: House, node: Mapping[str, Any]) -> Sequence[str]:
    """Returns what was measured from the reference node, what was decided, and why."""
    measured = ["-", "-", "-"]
    if node["node"] != REFERENCE_NODE:
        pair = scheduler_request.get_json(f"{demo.api}/api/v1/delays/pairs/{REFERENCE_NODE}/{node['node']}")["forward"]
        lost = 1 - pair["received"] / pair["sent"]
        measured = [f"{pair['rtt_ms']:.2f} ms", f"{pair['p95_ms']:.2f} ms", f"{lost:.0%}"]
    score = "-" if node["score"] is None else str(node["score"])
    # The page has who measured it, when, and its interval.
    reason = re.sub(r" \(.*?\)", "", node["reason"].partition(": ")[0])
    return [node["node"], *measured, node["verdict"], score, reason]


def _lose_a_link(demo: House, net: VirtualNetwork) -> None:
    one, other = LOST_LINK
    net.cut(one, other)
    print(f"\n2. The link between {one} and {other} is cut.", flush=True)
    demo.wait_until(lambda: len(_lost_links(demo)) == 2, f"{one} and {other} are lost links", WITHIN_SECONDS)
    links = _lost_links(demo)
    print("The page lists it under lost links:", *(f"  {link['text']}" for link in links), sep="\n", flush=True)
    if {link["source"] for link in links} != set(LOST_LINK):
        raise DemoFailed("these are other links than the one that was cut")


def _lost_links(demo: House) -> list[dict[str, Any]]:
    return list(scheduler_request.get_json(f"{demo.api}/api/v1/delays/lost")["items"])
