"""A package with a plugin of each kind, installed as into an image FROM ours: real processes run what it has."""

import os
import socket
from pathlib import Path

import pytest

from leadsman.testbed.etcd import Etcd
from tests.installed_package import install
from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, reward, shop_pod

EXAMPLES = Path(__file__).parents[2] / "examples/plugins"
ENTRY_POINTS = """
[leadsman.scores]
quiet = quiet:Quiet
[leadsman.filters]
ecc = ecc:Ecc
full = full:Full
[leadsman.metrics]
files = files:Files
[leadsman.rewards]
connect = connect:Connect
"""

LONG_SECONDS = 120.0
"""For four processes that start at once."""

POLICY = """
plugins:
  scores: [{name: quiet, deadline_ms: 100}]
  filters: [{name: ecc, deadline_ms: 100}, {name: full, deadline_ms: 100, on_failure: refuse}]
"""

FULL = """
from leadsman.plugin import API_VERSION, REFUSE

class Full:
    api_version, on_failure = API_VERSION, REFUSE

    def refuse(self, pod, nodes):
        return {node.name: "full" for node in nodes if not node.hardware.get("custom_files_used_ratio", 1.0) < 1.0}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is installed where child processes find it."""
    packages = tmp_path / "packages"
    packages.mkdir()
    examples = {name: (EXAMPLES / f"{name}.py").read_text() for name in ("quiet", "ecc", "files", "connect")}
    install(packages, monkeypatch, ENTRY_POINTS, {"full": FULL, **examples})
    path = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


def test_each_kind_works_end_to_end(installed: None, agent: Start, start: Start, etcd: Etcd, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with ApiServerThread() as api, socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        api.put("/api/v1/namespaces/d/pods/shop-0", shop_pod(connect_port=listening.getsockname()[1]))
        measuring = agent(
            "edge-1", 1, "--kube-api", api.url, "--owner", "pod-1", "--plugins=files,connect", "--observe-seconds=1"
        )
        extender = start("extender", "--policy", str(policy)).ready(LONG_SECONDS)
        until(lambda: 0 < measuring.metric("leadsman_custom_files_used_ratio") < 1, "the plugin's metric", LONG_SECONDS)
        qualities = lambda: reward(etcd).get("qualities", {}).keys()  # noqa: E731
        until(lambda: qualities() == {"connect_seconds"}, "the plugin's reward in etcd", LONG_SECONDS)
        assert measuring.metric('leadsman_reward_plugin_active{plugin="connect"}') == 1
        kept = lambda: extender.ask("filter", ["edge-1"], {"network": "quiet"})["NodeNames"]  # noqa: E731
        until(lambda: kept() == ["edge-1"], "the metric in a decision", LONG_SECONDS)
        for name in ("quiet", "ecc", "full"):
            active = f'leadsman_plugin_active{{plugin="{name}"}} 1.0'
            until(lambda line=active: line in extender.get("/metrics")[1], f"the plugin {name}", LONG_SECONDS)
