"""Pods whose binds are seen late, from two extenders that share a real etcd: no function is given twice, whoever asks.

In place of kube-scheduler stands one that does its worst: it asks both extenders at once, takes the first node of each
answer, and binds a dozen pods before anybody sees one of them bound.
"""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from leadsman.testbed.etcd import Etcd
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start
from tests.whole.devices.device_cluster import VF, Reports, link

pytestmark = pytest.mark.slow

NODES = [f"edge-{number}" for number in range(1, 21)]
FUNCTIONS, PODS, AT_ONCE = 8, 200, 12
SECONDS = 120.0

Object = dict[str, Any]


def pod(name: str) -> Object:
    container = {"name": "main", "resources": {"requests": {VF: "1"}, "limits": {VF: "1"}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": {"leadsman.dev/bandwidth": "1Gbit"}}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": "Pending"}}


def kept(extender: LeadsmanProcess, name: str) -> list[str]:
    """The nodes that are kept for the pod; none when the extender is gone."""
    body = json.dumps({"Pod": pod(name), "NodeNames": NODES}).encode()
    try:
        with urlopen(Request(f"{extender.url}/filter", body), timeout=10) as answer:
            names: list[str] = json.load(answer)["NodeNames"] or []
            return names
    except URLError:
        return []


def seen(extenders: list[LeadsmanProcess]) -> set[float]:
    """How many bound pods each of them sees."""
    return {each.metric("leadsman_extender_device_pods") for each in extenders}


def test_160_of_200_pods_are_placed_and_none_twice_while_one_extender_is_killed(
    start: Start, etcd: Etcd, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"devices: {{virtual_functions: [{VF}]}}\n")
    with ApiServerThread() as api, Reports(etcd, dict.fromkeys(NODES, link(FUNCTIONS))):
        for name in NODES:
            amounts = {VF: str(2 * FUNCTIONS)}
            api.put(f"/api/v1/nodes/{name}", {"metadata": {"name": name}, "status": {"allocatable": amounts}})
        for number in range(PODS):
            api.put(f"/api/v1/namespaces/default/pods/pod-{number}", pod(f"pod-{number}"))
        flags = ("--devices", "--policy", str(policy), "--kube-api", api.url)
        extenders = [start("extender", *flags).ready(SECONDS) for _ in range(2)]
        fresh = 'leadsman_state_nodes{freshness="fresh"}'
        for each in extenders:
            until(lambda each=each: each.metric(fresh) == len(NODES), "the reports are fresh", SECONDS)

        bound: dict[str, str] = {}
        waiting = [f"pod-{number}" for number in range(PODS)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            while len(bound) < FUNCTIONS * len(NODES):
                asked = waiting[:AT_ONCE]
                whom = [extenders[at % len(extenders)] for at in range(len(asked))]
                answers = dict(zip(asked, threads.map(kept, whom, asked), strict=True))
                if len(extenders) == 2 and len(bound) > PODS / 3:  # it has answered, and nothing of that is bound yet
                    extenders.pop().kill()
                placed = {name: nodes[0] for name, nodes in answers.items() if nodes}
                bound |= placed
                assert max(Counter(bound.values()).values(), default=0) <= FUNCTIONS
                for name, node in placed.items():
                    running = pod(name) | {"status": {"phase": "Running"}}
                    running["spec"]["nodeName"] = node
                    api.put(f"/api/v1/namespaces/default/pods/{name}", running)
                every_bind = {len(bound)}
                until(lambda every=every_bind: seen(extenders) == every, "the binds are seen", SECONDS)
                waiting = [name for name in waiting if name not in bound]
                waiting = waiting[AT_ONCE:] + waiting[:AT_ONCE]
            assert not any(kept(extenders[0], name) for name in waiting)
    assert Counter(bound.values()) == dict.fromkeys(NODES, FUNCTIONS)
