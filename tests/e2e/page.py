"""The page as people reach it: through kubectl's port-forward, and in the cluster with a token."""

import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from typing import Any

from leadsman.testbed.etcd import die_with_parent
from tests.e2e.cluster import Cluster
from tests.e2e.rollout import COMPONENTS, Rollout

EXTENDERS = "/api/v1/namespaces/leadsman/pods?labelSelector=app.kubernetes.io/component%3Dextender"
LOOKER = "e2e-looker"


def page_is_reached(cluster: Cluster, rollout: Rollout) -> str:
    """`leadsman page` opens it, and so does a token at each replica's listener; a request without one is refused."""
    rollout.apply((*COMPONENTS, "page", "page-service"))
    try:
        forwarded = _forwarded_overview(cluster)
        pods = [
            pod for pod in cluster.api.call("GET", EXTENDERS)["items"] if "deletionTimestamp" not in pod["metadata"]
        ]
        urls = [f"https://{pod['status']['podIP']}:9007/api/v1/overview" for pod in pods]
        token = _token_of_a_viewer(cluster)
        seen = [_fresh_nodes(_asked(url, token)) for url in urls]
        refusals = {_refusal(url) for url in urls}
        nodes = len(cluster.nodes)
        if _fresh_nodes(forwarded) != nodes or set(seen) != {nodes} or refusals != {401}:
            raise RuntimeError(f"{nodes} nodes; forwarded {forwarded['nodes']}, by token {seen}, without {refusals}")
        return f"by port-forward and by token at {len(urls)} replicas: {nodes} nodes fresh; without a token 401"
    finally:
        cluster.kubectl("delete", "clusterrolebinding", LOOKER, "--ignore-not-found")
        cluster.kubectl("delete", "serviceaccount", LOOKER, "--ignore-not-found")
        rollout.apply(COMPONENTS)


def _forwarded_overview(cluster: Cluster) -> Any:
    """What the address that `leadsman page` prints leads to."""
    environ = {**os.environ, "PATH": f"{cluster.binaries}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "leadsman.cli.main", "page", f"--kubeconfig={cluster.api.kubeconfig()}"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    ) as page:
        try:
            assert page.stdout
            assert page.stderr
            printed = page.stdout.readline().split()
            if len(printed) < 2:
                page.terminate()
                raise RuntimeError(f"leadsman page: {page.stderr.read()}")
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            with browser.open(printed[1], timeout=30) as answer:
                answer.read()
            address = printed[1].partition("/?")[0]
            with browser.open(f"{address}/api/v1/overview", timeout=30) as answer:
                return json.load(answer)
        finally:
            page.terminate()


def _token_of_a_viewer(cluster: Cluster) -> str:
    cluster.kubectl("create", "serviceaccount", LOOKER)
    role = ("--clusterrole=leadsman-page-viewer", f"--serviceaccount=default:{LOOKER}")
    cluster.kubectl("create", "clusterrolebinding", LOOKER, *role)
    return cluster.kubectl("create", "token", LOOKER, "--audience=leadsman-page").strip()


def _asked(url: str, token: str = "") -> Any:
    headers = {"Host": "leadsman-page", **({"Authorization": f"Bearer {token}"} if token else {})}
    context = ssl._create_unverified_context()  # The certificate names the Services, not the pods' addresses.
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30, context=context) as answer:
        return json.load(answer)


def _refusal(url: str) -> int:
    try:
        _asked(url)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def _fresh_nodes(overview: Any) -> int:
    fresh: int = overview["nodes"]["fresh"]
    return fresh
