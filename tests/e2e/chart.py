"""Leadsman by its Helm chart with default values, so with a locked etcd."""

import base64
import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from typing import Any

from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT
from tests.e2e.rollout import Rollout

RELEASE = ("leadsman", "--namespace", "leadsman")
MEMBERS = "/api/v1/namespaces/leadsman/pods?labelSelector=app.kubernetes.io/component%3Detcd"
IDENTITIES = {"key": "/leadsman/v1/nodes/", "range_end": "/leadsman/v1/nodes0"}


def install_chart(rollout: Rollout) -> None:
    chart = f"{ROOT}/charts/leadsman"
    rollout.install_with(lambda: _helm(rollout.cluster, "install", *RELEASE, chart, "--wait", "--timeout=300s"))


def remove_chart(rollout: Rollout) -> str:
    def delete() -> None:
        _helm(rollout.cluster, "uninstall", *RELEASE, "--ignore-not-found", "--wait", "--timeout=300s")
        rollout.cluster.kubectl("delete", "namespace", "leadsman", "--ignore-not-found", "--timeout=300s")

    return rollout.remove_with(delete)


def is_locked(cluster: Cluster, rollout: Rollout) -> str:
    """Members refuse who shows no credential, and each agent wrote its records with one that its token brought it."""
    urls = [f"https://{pod['status']['podIP']}:2379" for pod in cluster.api.call("GET", MEMBERS)["items"]]
    for url in urls:
        try:
            _ask(f"{url}/v3/kv/range", IDENTITIES)
        except urllib.error.HTTPError as error:
            refusal = json.load(error)["message"]
        else:
            raise RuntimeError(f"{url} answered a stranger")
    password = (rollout.folder / "leadsman-certs/etcd-root-password").read_text().strip()
    token = _ask(f"{urls[0]}/v3/auth/authenticate", {"name": "root", "password": password})["token"]
    users = _ask(f"{urls[0]}/v3/auth/user/list", {}, token)["users"]
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in IDENTITIES.items()}
    listed = _ask(f"{urls[0]}/v3/kv/range", {**encoded, "keys_only": True}, token)["kvs"]
    identities = [key for each in listed if (key := base64.b64decode(each["key"]).decode()).endswith("/identity")]
    missing = {f"agent/{node.name}" for node in cluster.nodes} - {*users}
    if missing or len(identities) != len(cluster.nodes):
        raise RuntimeError(f"no user for {sorted(missing)}; identities: {identities}")
    return f"{len(urls)} members refuse a stranger ({refusal}); {len(identities)} agents write as users of their own"


def _ask(url: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Authorization": token} if token else {})
    context = ssl._create_unverified_context()  # Members' certificates name them, not their addresses.
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return dict(json.load(answer))


def _helm(cluster: Cluster, *words: str) -> None:
    helm = shutil.which("helm", path=f"{cluster.binaries}:{os.environ['PATH']}")
    if helm is None:
        raise RuntimeError("helm is neither in E2E_BIN nor on PATH: python -m tests.kubernetes_tools /usr/local/bin")
    command = [helm, *words, f"--kubeconfig={cluster.api.kubeconfig()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"helm {' '.join(words)}: {done.stderr}")
