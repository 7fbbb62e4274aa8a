"""The extender as a process between real agents and a scheduler's requests."""

import json
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from leadsman.cli.demo import scheduler_request
from leadsman.testbed.etcd import Etcd

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Fresh, Start, Until

    Cluster = tuple[LeadsmanProcess, LeadsmanProcess, LeadsmanProcess]


@pytest.fixture
def cluster(agent: "Start", start: "Start", until: "Until", fresh: "Fresh") -> "Cluster":
    """Two agents and an extender that knows both."""
    one, two, extender = agent("edge-1", 1), agent("edge-2", 2), start("extender")
    until(lambda: both_measured(extender), "edge-1 and edge-2 fresh and measured")
    return one, two, extender


def both_measured(extender) -> bool:
    nodes = extender.nodes()
    return len(nodes) == 2 and all(n["status"] == "fresh" and n["peers_p50_ms"] for n in nodes.values())


def ask(extender: "LeadsmanProcess", verb: str, nodes: list[str], labels: dict[str, str]) -> Any:
    body = json.dumps(scheduler_request.captured_args(nodes, labels)).encode()
    with urlopen(Request(f"{extender.url}/{verb}", body, {"Content-Type": "application/json"}), timeout=5) as answer:
        return json.load(answer)


def test_a_bound_holds_on_what_the_agents_measure(
    cluster: "Cluster",
) -> None:
    *_, extender = cluster
    near = ask(extender, "filter", ["edge-1", "edge-2"], {"delay_edge-1": "50"})
    assert near["NodeNames"] == ["edge-1", "edge-2"]
    only = ask(extender, "filter", ["edge-1", "edge-2"], {"delay_edge-1": "0"})
    assert only["NodeNames"] == ["edge-1"]
    assert only["FailedAndUnresolvableNodes"] == {"edge-2": "delay to edge-1 over 0 ms"}


def test_a_node_whose_agent_was_killed_is_refused_for_a_bounded_pod(
    cluster: "Cluster", until: "Until", fresh: "Fresh"
) -> None:
    _, two, extender = cluster
    two.child.send_signal(signal.SIGKILL)
    until(lambda: "edge-2" not in fresh(extender), "edge-2 not fresh any more", 3 + 2)
    until(lambda: "edge-2" not in extender.nodes(), "edge-2 gone", 4 + 4)
    kept = ask(extender, "filter", ["edge-1", "edge-2"], {})
    assert kept["NodeNames"] == ["edge-1", "edge-2"], "a pod without a bound may still go there"


def test_without_etcd_it_is_ready_and_neutral_and_refuses_only_bounded_pods(
    start: "Start", etcd: Etcd, until: "Until"
) -> None:
    etcd.kill()
    extender = start("extender")
    until(lambda: extender.get("/readyz")[0] == 503, "it waits for etcd")
    assert extender.get("/healthz") == (200, "ok\n"), "a restart would not bring etcd"
    until(lambda: extender.get("/readyz")[0] == 200, "ready without etcd")
    assert "the state in etcd (Unavailable: " in extender.get("/readyz")[1]
    assert ask(extender, "filter", ["a", "b"], {})["NodeNames"] == ["a", "b"]
    assert len({row["Score"] for row in ask(extender, "prioritize", ["a", "b"], {})}) == 1
    bounded = ask(extender, "filter", ["a", "b"], {"delay_a": "25"})
    assert bounded["NodeNames"] == ["a"], "a node is 0 ms from itself, whatever is known"
    assert bounded["FailedAndUnresolvableNodes"].keys() == {"b"}


def test_the_view_is_back_within_10_seconds_of_etcd(
    cluster: "Cluster", etcd: Etcd, until: "Until", fresh: "Fresh"
) -> None:
    *_, extender = cluster
    etcd.kill()
    until(lambda: not fresh(extender), "all stale", 3 + 2)
    etcd.start()
    until(lambda: fresh(extender) == {"edge-1", "edge-2"}, "both fresh again", 10)


def test_the_view_is_rebuilt_when_etcd_was_wiped(
    cluster: "Cluster", etcd: Etcd, until: "Until", fresh: "Fresh"
) -> None:
    *_, extender = cluster
    etcd.wipe()
    etcd.start()
    until(lambda: not fresh(extender), "all stale", 3 + 2)
    until(lambda: fresh(extender) == {"edge-1", "edge-2"}, "both fresh again", 15)


def test_a_policy_file_is_followed_and_a_bad_one_is_refused(
    agent: "Start", start: "Start", tmp_path: Path, until: "Until"
) -> None:
    policy = tmp_path / "policy.yaml"
    shutil.copy("examples/policy.yaml", policy)
    extender = start("extender", "--policy", str(policy))
    loaded = "leadsman_policy_load_success"
    until(lambda: extender.metric(loaded) == 1, "the policy loaded")
    policy.write_text("delay: {statistic: p51}\n")
    until(lambda: extender.metric(loaded) == 0, "the bad policy refused")
    assert "$.delay.statistic" in extender.log
    assert str(policy) in extender.log
    policy.write_text("delay: {estimate: accept}\n")
    until(lambda: extender.metric(loaded) == 1, "the good policy loaded")
    assert ask(extender, "filter", ["a", "b"], {"delay_a": "25"})["NodeNames"] == ["a", "b"]


def test_a_bad_policy_at_start_is_one_clear_line(start: "Start", tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("scores: {pressure: {weight: -1}}\n")
    extender = start("extender", "--policy", str(tmp_path / "policy.yaml"))
    assert extender.child.wait(20) in (1, 2)
    assert "$.scores.pressure.weight" in extender.log
    assert "Traceback" not in extender.log


def test_it_leaves_cleanly_on_sigterm(cluster: "Cluster") -> None:
    *_, extender = cluster
    assert extender.stop() == 0
    assert "Traceback" not in extender.log
