"""Nodes die under a real control plane, and their bounded pods come back on their backups.

Needs root, and kube-apiserver, etcd, kube-scheduler and kube-controller-manager in the folder that KUBEBUILDER_ASSETS
names. At a rhythm 2.5 times as fast as installed; `python -m benchmarks.failover` measures at the installed one.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadsman.planning.recovery_plan import UNREACHABLE_TAINT
from leadsman.testbed import virtual_network
from tests.failover.agent_cluster import QUICK, ZONES
from tests.failover.kubernetes_cluster import REFERENCE, KubernetesCluster, Pod

NO_NAMESPACES = virtual_network.why_unavailable()

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(NO_NAMESPACES is not None, reason=f"no network namespaces here: {NO_NAMESPACES}"),
]

PATIENCE_SECONDS = 60.0
WITHIN_BOUND = {*ZONES["a"], *ZONES["b"]}

StartCluster = Callable[..., KubernetesCluster]


@pytest.fixture
def start(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[StartCluster]:
    """`start("--failover-nodes", "9")`: a cluster whose nodes all hear each other, from entry to exit."""
    for name in ("kube-scheduler", "kube-controller-manager"):
        if not (kubernetes_binaries / name).is_file():
            pytest.skip(f"KUBEBUILDER_ASSETS={kubernetes_binaries}: there is no {name} in it")

    def started(*controller_flags: str) -> KubernetesCluster:
        return KubernetesCluster(kubernetes_binaries, tmp_path, QUICK, *controller_flags)

    yield started
    for log in (*tmp_path.glob("controller-*.log"), *tmp_path.glob("extender-*.log")):
        assert "Traceback" not in log.read_text(), log.read_text()[-3000:]


def deployed(cluster: KubernetesCluster, replicas: int, memory: str = "1Gi") -> list[Pod]:
    """The pods of a new Deployment, once each has a backup."""
    cluster.wait_until(cluster.is_settled, "nine nodes that all hear each other", 2 * PATIENCE_SECONDS)
    cluster.deploy("web", replicas, memory)
    cluster.wait_until(
        lambda: len(cluster.pods()) == replicas and cluster.is_covered(), "pods covered", PATIENCE_SECONDS
    )
    return cluster.pods()


def most_loaded(pods: list[Pod], among: set[str]) -> str:
    """Of these nodes the one with most of the pods; not the one that they are bounded to."""
    return max(sorted(among - {REFERENCE}), key=lambda node: sum(pod.node == node for pod in pods))


def recovered(cluster: KubernetesCluster, node: str, before: list[Pod], cut_at: float) -> list[Pod]:
    """The bound replacements of the pods on a node that died. Prints what passed since the cut."""
    lost = [pod for pod in before if pod.node == node]
    passed = {}
    for what, seen in (
        ("dead", lambda: cluster.troubled().get(node, {}).get("verdict") == "dead"),
        ("tainted", lambda: UNREACHABLE_TAINT in cluster.taints(node)),
        ("bound", lambda: len(cluster.replaced(before)) >= len(lost)),
    ):
        cluster.wait_until(seen, f"{node} {what}", PATIENCE_SECONDS)
        passed[what] = time.monotonic() - cut_at
    shown = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in passed.items())
    sys.stdout.write(f"{node} with {len(lost)} pods, after the cut: {shown}\n")
    return cluster.replaced(before)


def test_in_a_full_cluster_the_pods_of_a_dead_node_return_on_their_backups_and_stay_there(start: StartCluster) -> None:
    with start() as cluster:
        before = deployed(cluster, 3, "3Gi")
        # Whatever room placeholders do not hold is taken.
        cluster.fill("1Gi")
        cluster.wait_until(cluster.is_covered, "covered in a full cluster", PATIENCE_SECONDS)
        node = most_loaded(before, WITHIN_BOUND)
        backups = {cluster.coverage()[pod.name]["backup"] for pod in before if pod.node == node}
        planned = {pod.name: {"node": cluster.coverage()[pod.name]["backup"], "reason": ""} for pod in before}
        explained = lambda: {pod.name: cluster.explained(pod)["backup"] for pod in before}  # noqa: E731
        cluster.wait_until(lambda: explained() == planned, "explanations show each pod's backup", 30.0)
        told = {event["regarding"]["name"]: event["note"] for event in cluster.events("Covered")}
        assert told == {name: f"its backup is node {backup['node']}" for name, backup in planned.items()}
        cut_at = time.monotonic()
        cluster.kill(node)
        replacements = recovered(cluster, node, before, cut_at)
        assert {pod.node for pod in replacements} == backups
        assert backups <= WITHIN_BOUND - {node}
        cluster.wait_until(lambda: None not in timeline(cluster, node), "all of its pods run", PATIENCE_SECONDS)
        steps = [at for at in timeline(cluster, node) if at is not None]
        assert steps == sorted(steps)

        cluster.heal()
        cluster.revive(node)
        cluster.wait_until(lambda: UNREACHABLE_TAINT not in cluster.taints(node), "taint gone", PATIENCE_SECONDS)
        cluster.wait_until(cluster.is_settled, "healthy again", PATIENCE_SECONDS)
        assert set(replacements) <= set(cluster.pods()), "nothing moved back"


def test_of_three_nodes_killed_at_once_the_default_budget_allows_one_and_the_others_say_why(
    start: StartCluster,
) -> None:
    with start() as cluster:
        before = deployed(cluster, 8)
        killed = {most_loaded(before, set(ZONES[zone])) for zone in "abc"}
        cut_at = time.monotonic()
        for node in killed:
            cluster.kill(node)
        cluster.wait_until(lambda: killed <= judged(cluster), "three judged", PATIENCE_SECONDS)
        [first] = cluster.published()["recovery"]["dead"]
        recovered(cluster, first, before, cut_at)
        reasons = {event["regarding"]["name"]: event["note"] for event in cluster.events("FailoverWithheld")}
        others = killed - {first}
        shown = cluster.self_healing()["recovery"]["withheld"]
        assert shown.keys() == others
        assert all("nodes failed over in 600 s: 1 of 1" in reason for reason in shown.values())
        assert [node for node in others if "nodes failed over in 600 s: 1 of 1" not in reasons[node]] == []
        assert all(UNREACHABLE_TAINT not in cluster.taints(node) for node in others)
        stay = {pod for pod in before if pod.node in others}
        assert stay <= set(cluster.pods()), "no pod of theirs was deleted"


def test_with_a_raised_budget_three_nodes_killed_at_once_are_failed_over_and_nothing_goes_to_them(
    start: StartCluster,
) -> None:
    with start("--failover-nodes", "9") as cluster:
        before = deployed(cluster, 8)
        killed = {most_loaded(before, set(ZONES[zone])) for zone in "abc"}
        lost = [pod for pod in before if pod.node in killed]
        for node in killed:
            cluster.kill(node)
        cluster.wait_until(
            lambda: set(cluster.published().get("recovery", {}).get("dead", ())) == killed, "taken up", PATIENCE_SECONDS
        )
        cluster.wait_until(lambda: len(cluster.replaced(before)) >= len(lost), "all bound", 2 * PATIENCE_SECONDS)
        assert [pod for pod in cluster.replaced(before) if pod.node in killed] == []


def test_the_next_leader_goes_on_when_the_leader_dies_with_the_node(start: StartCluster) -> None:
    with start() as cluster:
        before = deployed(cluster, 4)
        second = cluster.start_controller()
        cluster.wait_until(cluster.is_settled, "the second controller judges too", PATIENCE_SECONDS)
        first = cluster.leader()
        assert first != second
        cluster.wait_until(lambda: cluster.remembered() >= {pod.uid for pod in before}, "backups written", 30.0)
        node = most_loaded(before, WITHIN_BOUND)
        cut_at = time.monotonic()
        cluster.kill(node)
        cluster.controllers[first].send_signal(signal.SIGKILL)
        recovered(cluster, node, before, cut_at)
        assert cluster.leader() == second


def test_while_the_extender_is_away_the_taint_keeps_replacements_off_the_dead_node(start: StartCluster) -> None:
    with start() as cluster:
        before = deployed(cluster, 8)
        node = most_loaded(before, WITHIN_BOUND)
        cluster.extender.kill()
        cut_at = time.monotonic()
        cluster.kill(node)
        replacements = recovered(cluster, node, before, cut_at)
        assert [pod for pod in replacements if pod.node == node] == []


def timeline(cluster: KubernetesCluster, node: str) -> list[float | None]:
    """As /plan has it: first lost probe, suspect, dead, tainted, and its last pod deleted, bound and running."""
    dead = cluster.self_healing()["recovery"]["dead"][node]
    of_node = [dead[step] for step in ("first_lost_at", "suspect_at", "dead_at", "tainted_at")]
    by_step = ([pod[step] for pod in dead["pods"].values()] for step in ("deleted_at", "bound_at", "running_at"))
    return [*of_node, *(None if None in times else max(times) for times in by_step)]


def judged(cluster: KubernetesCluster) -> set[str]:
    """The dead nodes that were failed over or withheld."""
    recovery = cluster.published().get("recovery", {})
    return {*recovery.get("dead", ()), *recovery.get("withheld", ())}
