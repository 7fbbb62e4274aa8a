"""The page as people reach it: through kubectl's port-forward."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from leadsman.testbed.etcd import die_with_parent
from tests.e2e.cluster import Cluster
from tests.e2e.rollout import Rollout

FORWARDED_WITHIN_SECONDS = 30.0


def page_is_reached(cluster: Cluster, _: Rollout) -> str:
    """The address that `leadsman page` prints leads to the page, which knows every node."""
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
            fresh = _overview(printed[1])["nodes"]["fresh"]
        finally:
            page.terminate()
    if fresh != len(cluster.nodes):
        raise RuntimeError(f"{fresh} of {len(cluster.nodes)} nodes are fresh on the page")
    return f"by port-forward: {fresh} nodes fresh"


def _overview(address: str) -> Any:
    """Asked until kubectl forwards the port."""
    until = time.monotonic() + FORWARDED_WITHIN_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{address}api/v1/overview", timeout=30) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
