"""Leadsman by its Helm chart with default values."""

import contextlib
import json
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from tests.e2e.cluster import Cluster
from tests.e2e.rollout import Rollout
from tests.e2e.state_watch import StateWatch

RELEASE = ("leadsman", "--namespace", "leadsman")
MEMBERS = "/api/v1/namespaces/leadsman/pods?labelSelector=app.kubernetes.io/component%3Detcd"


HEALING = (
    "profile=self-healing",
    "planning.movePlans=true",
    "scheduler.enabled=true",
    # All deaths within ten minutes, of few nodes.
    "controller.extraArgs={--failover-nodes=100}",
)
OTHER = ("logLevel=debug", "extender.replicas=3", "extender.policy.scores.nearest.weight=5", "agent.podLabels.other=x")
"""What an upgrade changes: all parts begin again, a replica more, another policy."""


def install_chart(rollout: Rollout, *values: str) -> None:
    """values: as `--set` takes them; otherwise the defaults."""

    def deploy() -> None:
        if rollout.release:
            rollout.release.install(rollout.cluster, rollout.folder, shlex.join(_set(values)))
        else:
            chart = str(rollout.chart)
            _helm(rollout.cluster, "install", *RELEASE, chart, *_set(values), "--wait", "--timeout=300s")
            rollout.fetch_certificates()

    rollout.install_with(deploy)


def install_healing(rollout: Rollout) -> None:
    install_chart(rollout, *HEALING)


def reinstall(cluster: Cluster, rollout: Rollout) -> str:
    """A fresh installation, and an upgrade of all its parts. After each all members have the same members and data."""
    remove_chart(rollout)
    install_chart(rollout)
    cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
    said = [members_are_equal(cluster)]
    upgrade_by_parts(cluster, rollout)
    cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
    said.append(members_are_equal(cluster))
    return f"installed: {said[0]}; upgraded: {said[1]}"


def upgrade_by_parts(cluster: Cluster, rollout: Rollout) -> None:
    """One part after another."""
    for part in ("agent", "etcd", "extender"):
        change_values(cluster, rollout, f"{part}.podLabels.upgraded=x{time.monotonic_ns()}")


def change_values(cluster: Cluster, rollout: Rollout, *values: str) -> None:
    """An upgrade that leaves all other values as they are."""
    chart = (str(rollout.chart), "--reuse-values")
    _helm(cluster, "upgrade", *RELEASE, *chart, *_set(values), "--wait", "--timeout=300s")
    rollout.wait_for_all()


def members_are_equal(cluster: Cluster) -> str:
    """RuntimeError when they are not, by the hash of their keys at one revision and by whom they know as members."""
    names = [pod["metadata"]["name"] for pod in cluster.api.call("GET", MEMBERS)["items"]]
    revision = min(_etcdctl(cluster, name, "endpoint", "status")[0]["Status"]["header"]["revision"] for name in names)
    hashes = [_etcdctl(cluster, name, "endpoint", "hashkv", f"--rev={revision}")[0]["HashKV"] for name in names]
    data = {(each["hash"], each["compact_revision"]) for each in hashes}
    members = [sorted(each["ID"] for each in _etcdctl(cluster, name, "member", "list")["members"]) for name in names]
    if len(data) > 1 or any(each != members[0] for each in members) or len(names) != len(members[0]):
        raise RuntimeError(f"members differ at revision {revision}: {hashes}, {members}")
    return f"{len(names)} members have hash {data.pop()[0]} at revision {revision:,}"


def _etcdctl(cluster: Cluster, member: str, *words: str) -> Any:
    command = ("exec", member, "-c", "etcd", "--", "etcdctl", "--write-out=json", *words)
    return json.loads(cluster.kubectl("-n", "leadsman", *command))


def upgrade_and_back(cluster: Cluster, rollout: Rollout) -> None:
    """Everything at once, as helm does it."""
    _helm(cluster, "upgrade", *RELEASE, str(rollout.chart), *_set(OTHER), "--wait", "--timeout=300s")
    rollout.wait_for_all()
    _helm(cluster, "rollback", *RELEASE, "--wait", "--timeout=300s")
    rollout.wait_for_all()


def _set(values: Sequence[str]) -> list[str]:
    return [f"--set={value}" for value in values]


def remove_chart(rollout: Rollout) -> str:
    return rollout.remove_with(lambda: delete_release(rollout.cluster))


def delete_release(cluster: Cluster) -> None:
    _helm(cluster, "uninstall", *RELEASE, "--ignore-not-found", "--wait", "--timeout=300s")
    cluster.kubectl("delete", "namespace", "leadsman", "--ignore-not-found", "--timeout=300s")


def is_locked(cluster: Cluster, rollout: Rollout) -> str:
    """Gateways refuse who shows no token, and each agent wrote its records through one. etcd itself is not reached."""
    pods = cluster.api.call("GET", MEMBERS)["items"]
    for pod in pods:
        try:
            _ask(f"https://{pod['status']['podIP']}:9004/v3/kv/range")
        except urllib.error.HTTPError as error:
            refusal = json.load(error)["message"]
        else:
            raise RuntimeError(f"{pod['metadata']['name']} answered a stranger")
        with contextlib.suppress(OSError), socket.create_connection((pod["status"]["podIP"], 2379), timeout=5):
            raise RuntimeError(f"etcd itself is open in {pod['metadata']['name']}")
    listing = ("etcdctl", "get", "--prefix", "--keys-only", "/leadsman/v1/nodes/")
    keys = cluster.kubectl("-n", "leadsman", "exec", pods[0]["metadata"]["name"], "-c", "etcd", "--", *listing).split()
    identities = [key for key in keys if key.endswith("/identity")]
    if len(identities) != len(cluster.nodes):
        raise RuntimeError(f"not every agent reports: {identities}")
    return f"{len(pods)} members refuse a stranger ({refusal}); {len(identities)} agents write"


def _ask(url: str) -> None:
    request = urllib.request.Request(url, b"{}")
    context = ssl._create_unverified_context()  # Members' certificates name them, not their addresses.
    urllib.request.urlopen(request, timeout=10, context=context).close()


def _helm(cluster: Cluster, *words: str) -> None:
    helm = shutil.which("helm", path=f"{cluster.binaries}:{os.environ['PATH']}")
    if helm is None:
        raise RuntimeError("helm is neither in E2E_BIN nor on PATH: python -m tests.kubernetes_tools /usr/local/bin")
    command = [helm, *words, f"--kubeconfig={cluster.api.kubeconfig()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"helm {' '.join(words)}: {done.stderr}")
