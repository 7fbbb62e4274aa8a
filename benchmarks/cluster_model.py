"""The model of the cluster at 5,000 nodes and 50,000 pods: memory, time to the first model, time for a change.

    python -m benchmarks.cluster_model [--nodes 5000] [--pods 50000]

A process of its own serves the objects as a fake API server, pods of about 7 KB with what clusters write on them. This
process follows them as a controller does. Beside each derived model stands one that is built of all objects.
"""

import argparse
import asyncio
import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.scheduling import Feasibility
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.decoding import decode_json
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.testbed.fake_api_server import FakeApiServer

MIB = 1 << 20
PODS_OF_A_DEPLOYMENT = 50
NAMESPACES = 100
REPEATS = 200
WITHIN_SECONDS = 600.0


def node(number: int, nodes: int) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": f"node-{number}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "rack": f"rack-{number * 100 // nodes}",
    }
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-2Mi": "0"}
    conditions = [{"type": kind, "status": "True", "reason": "x", "message": "x" * 40} for kind in ("Ready", "Network")]
    images = [{"names": [f"registry.example.com/image-{image}:1.0"], "sizeBytes": 1 << 25} for image in range(20)]
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": conditions, "images": images}
    return {"metadata": {"name": f"node-{number}", "labels": labels}, "spec": {}, "status": status}


def pod(number: int, nodes: int) -> dict[str, Any]:
    app = f"app-{number // PODS_OF_A_DEPLOYMENT}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-5d4f9c7b", "uid": f"u-{app}"}
    selector = {"matchLabels": {"app": app}}
    environment = [{"name": f"VARIABLE_{each}", "value": "x" * 40} for each in range(20)]
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    mount = {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    container = {"image": f"registry.example.com/{app}:1.0", "env": environment, "resources": resources}
    spread = {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    status = {"name": "main", "ready": True, "restartCount": 0, "resources": resources, "imageID": "x" * 80}
    status |= {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "allocatedResources": resources["requests"]}
    condition = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "lastProbeTime": None}
    fields: dict[str, Any] = {"f:spec": {f"f:field-{each}": {"f:value": {}} for each in range(30)}}
    return {
        "metadata": {
            "name": f"{app}-5d4f9c7b-{number:05}",
            "namespace": f"team-{number // PODS_OF_A_DEPLOYMENT % NAMESPACES}",
            "uid": f"3f6c1d9e-0000-4000-8000-{number:012}",
            "labels": {"app": app, "pod-template-hash": "5d4f9c7b", "team": "x", "version": "1.0"},
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": "x" * 64},
            "ownerReferences": [owner | {"controller": True}],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {
            "nodeName": f"node-{number * 7919 % nodes}",
            "containers": [{"name": name, "volumeMounts": [mount], **container} for name in ("main", "proxy")],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "topologySpreadConstraints": [spread | {"labelSelector": selector}],
            "volumes": [{"name": f"kube-api-access-{number:05}", "projected": {}}],
            "priority": 0,
        },
        "status": {
            "phase": "Running",
            "conditions": [condition | {"type": kind} for kind in ("Ready", "PodScheduled", "Initialized")],
            "containerStatuses": [status, status | {"name": "proxy"}],
        },
    }


async def serve(nodes: int, pods: int) -> None:
    async with FakeApiServer() as api:
        for number in range(nodes):
            api.put(f"/api/v1/nodes/node-{number}", node(number, nodes))
        for number in range(pods):
            one = pod(number, nodes)
            meta = one["metadata"]
            api.put(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", one)
        api.objects.log.clear()
        print(api.url, flush=True)
        await asyncio.Event().wait()


async def follow(url: str, nodes: int) -> None:
    before = psutil.Process().memory_info().rss
    async with ApiClient(ApiAccess(url), deadline_seconds=120.0) as client:
        follower = ClusterFollower(client)
        started = time.monotonic()
        task = asyncio.create_task(follower.run())
        async with asyncio.timeout(WITHIN_SECONDS):
            while not follower.loaded:  # noqa: ASYNC110 -- nine events
                await asyncio.sleep(0.01)
        seconds = time.monotonic() - started
        memory = psutil.Process().memory_info().rss
        cluster = follower.current
        assert cluster is not None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            f"{len(cluster.nodes)} nodes, {len(cluster.pods)} pods, of one pod {len(json.dumps(pod(0, nodes)))} bytes"
        )
        print(f"RSS: {memory / MIB:.0f} MiB, {before / MIB:.0f} before the first list, at most {peak / MIB:.0f}")
        print(f"first model: {seconds:.1f} s")
        print_changes(follower, nodes)
        print_judgements(cluster)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def print_changes(follower: ClusterFollower, nodes: int) -> None:
    lines = iter([json.dumps(with_ready(pod(number, nodes), "False")).encode() for number in range(2 * REPEATS)])
    cluster = follower.current
    assert cluster is not None

    def change() -> None:
        new = decode_json(next(lines), PodObject)
        follower._assembly.apply("Pod", [ObjectChange(ChangeType.MODIFIED, new)])

    derived = milliseconds(change, REPEATS)
    rebuilt = milliseconds(lambda: cluster_of(cluster.nodes.values(), cluster.pods.values()), 3)
    print(f"a changed pod, decoded → new model: {derived:.3f} ms; built of all objects: {rebuilt:.0f} ms", end="")
    print(f" ({rebuilt / derived:.0f} times as long)")


def with_ready(one: dict[str, Any], status: str) -> dict[str, Any]:
    one["status"]["conditions"][0] = {"type": "Ready", "status": status}
    return one


def print_judgements(cluster: Cluster) -> None:
    pods = list(cluster.pods.values())
    templates = itertools.cycle(pods[::PODS_OF_A_DEPLOYMENT])
    Feasibility(cluster, next(templates))
    first = milliseconds(lambda: Feasibility(cluster, next(templates)), REPEATS)
    siblings = iter(pods)
    sibling = milliseconds(lambda: Feasibility(cluster, next(siblings)), PODS_OF_A_DEPLOYMENT)
    moved, targets = cluster, itertools.cycle(cluster.nodes)
    movers = iter(pods)

    def move() -> None:
        nonlocal moved
        one = next(movers)
        moved = moved.with_pod(one, next(targets))
        Feasibility(moved, one)

    after = milliseconds(move, REPEATS)
    print(
        f"a pod judged on all nodes, spread over zones: {first:.2f} ms the first of a template, {sibling:.2f} ms",
        end="",
    )
    print(f" another one, {after:.2f} ms after a move in a derived model")


def milliseconds(run: Callable[[], object], times: int) -> float:
    """The median of so many runs."""
    durations = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        durations.append(time.perf_counter() - started)
    return statistics.median(durations) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.nodes, args.pods))
        return
    command = [sys.executable, "-m", "benchmarks.cluster_model", "--serve"]
    command += ["--nodes", str(args.nodes), "--pods", str(args.pods)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            asyncio.run(follow(server.stdout.readline().strip(), args.nodes))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
