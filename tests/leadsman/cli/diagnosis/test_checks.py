"""What `leadsman doctor` concludes from what was seen: a sound cluster, and each fault alone."""

from typing import Any

import pytest
from msgspec.structs import replace

from extender.api.live import CertificateDays, DecisionRates, WaitingPods
from extender.api.overview import SCHEDULER_ASKS, Check, NodeCounts, Overview, PairCounts
from leadsman.cli.doctor_checks import Denied, Seen, Status, diagnose


def pod(
    component: str, node: str = "edge-1", *, ready: bool = True, image: str = "registry:5000/leadsman:1.0"
) -> dict[str, Any]:
    containers = [{"name": component, "image": image}, {"name": "proxy", "image": "p:7"}]
    return {
        "metadata": {"name": f"{component}-{node}", "labels": {"app.kubernetes.io/component": component}},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def overview(**changed: Any) -> Overview:
    sound = Overview(
        "2026-01-31T14:02:00Z",
        "extender-a",
        "1.0",
        "c",
        1,
        0.1,
        "2026-01-31T14:00:00Z",
        NodeCounts(1, 0, 0, 0),
        PairCounts(0, 0, 0),
        None,
        decisions(50, 0),
        WaitingPods(0, None, None),
        [CertificateDays("server", 300.0)],
        [],
    )
    return replace(sound, **changed)


def decisions(decided: int, neutral: int) -> DecisionRates:
    return DecisionRates(0.0, None, None, 0, None, {}, decided, neutral)


def ending_in(days: float) -> list[CertificateDays]:
    return [CertificateDays("server", days)]


def view(**changed: Any) -> dict[str, Overview]:
    return {"extender-a": overview(**changed)}


SOUND = Seen(
    "leadsman",
    "v1.36.2",
    [pod("agent"), pod("extender"), pod("extender", "edge-2"), pod("etcd")],
    ["edge-1"],
    {"edge-1": 0.4},
    {"edge-1": "0\t2147483647"},
    {"leadsman-agent may list pods": True},
    view(),
    {"controller-a": 0.0, "controller-b": 1.0},
    {"etcd-0": 0.0, "etcd-1": 0.0},
)
REFUSED = Check("policy file", False, "error", "policy file: scores: got 3", "run leadsman policy check")
STALE = {"nodes": NodeCounts(0, 0, 1, 0), "problems": [REFUSED]}


def test_a_sound_cluster_has_no_advice() -> None:
    """kube-scheduler asks one replica for as long as the connection lasts."""
    spare = overview(decisions=decisions(0, 0), problems=[Check(SCHEDULER_ASKS, False, "warning", "not asked", "do")])
    findings = diagnose(replace(SOUND, extenders=view() | {"extender-b": spare}), "1.0")
    assert {each.status for each in findings} == {Status.OK}
    assert {each.what_to_do for each in findings} == {""}


@pytest.mark.parametrize(
    ("changed", "check", "status", "text"),
    [
        ({"server_version": "v1.29.3"}, "kubernetes", Status.ERROR, "older than 1.30"),
        ({"server_version": Denied("connection refused")}, "kubernetes", Status.ERROR, "connection refused"),
        ({"ready_nodes": ["edge-1", "edge-2"]}, "agents", Status.WARNING, "1 of 2 ready nodes: edge-2"),
        ({"ready_nodes": []}, "agents", Status.ERROR, "no Linux node"),
        ({"ready_nodes": Denied("forbidden")}, "agents", Status.UNKNOWN, "forbidden"),
        ({"rights": {"a may list pods": False}}, "rights", Status.ERROR, "a may list pods: refused"),
        ({"rights": {"a may list pods": Denied("no --as")}}, "rights", Status.UNKNOWN, "no --as"),
        ({"clocks": {"edge-1": -7}}, "clocks", Status.WARNING, "edge-1 is 7 s behind"),
        ({"clocks": {"edge-1": 90}}, "clocks", Status.ERROR, "edge-1 is 90 s ahead of"),
        ({"clocks": {}}, "clocks", Status.UNKNOWN, "no Lease"),
        ({"clocks": Denied("forbidden")}, "clocks", Status.UNKNOWN, "forbidden"),
        ({"sysctl": {"edge-1": "1\t0"}}, "sysctl", Status.WARNING, "agents cannot use ICMP"),
        ({"sysctl": {"edge-1": Denied("no exec")}}, "sysctl", Status.UNKNOWN, "no exec"),
        ({"extenders": Denied("none runs")}, "extender", Status.ERROR, "none runs"),
        ({"extenders": view(certificates=ending_in(20.0))}, "certificate", Status.WARNING, "ends in 20 days"),
        ({"extenders": view(certificates=ending_in(-2.0))}, "certificate", Status.ERROR, "ended 2 days ago"),
        ({"extenders": view(**STALE)}, "state", Status.ERROR, "0 of 1 nodes are fresh"),
        ({"extenders": view(**STALE)}, "state", Status.WARNING, "policy file: scores: got 3"),
        ({"extenders": {"a": Denied("no forward")}}, "state", Status.ERROR, "no forward"),
        ({"extenders": view(decisions=decisions(0, 0))}, "scheduler", Status.ERROR, "has not asked any replica"),
        ({"extenders": view(decisions=decisions(9, 3))}, "answers", Status.WARNING, "33% of the answers"),
        ({"leaders": {"controller-a": 0.0}}, "controller", Status.ERROR, "none of those"),
        ({"differing": {"etcd-0": 1.0, "etcd-1": 0.0}}, "etcd", Status.ERROR, "the data of etcd-0 differ"),
        ({"leaders": {"a": Denied("refused")}}, "controller", Status.UNKNOWN, "a does not answer"),
    ],
)
def test_each_fault_is_named_with_what_to_do(changed: dict, check: str, status: Status, text: str) -> None:
    findings = diagnose(replace(SOUND, **changed), "1.0")
    found = [each for each in findings if (each.check, each.status) == (check, status) and text in each.text]
    assert len(found) == 1, findings
    assert found[0].what_to_do


@pytest.mark.parametrize("leaders", [{}, {"dry-run": None}])
def test_no_leader_is_looked_for_where_nobody_may_lead(leaders: dict[str, None]) -> None:
    findings = diagnose(replace(SOUND, leaders=leaders), "1.0")
    assert [each for each in findings if each.check == "controller"] == []


@pytest.mark.parametrize(
    ("pods", "status", "text"),
    [
        ([pod("extender"), pod("extender", "edge-2", ready=False)], Status.WARNING, "1 ready of 2"),
        ([pod("extender", ready=False)], Status.ERROR, "none of 1 is ready"),
        ([], Status.ERROR, "the namespace leadsman has no extender pod"),
    ],
)
def test_replicas_that_are_missing_are_counted(pods: list, status: Status, text: str) -> None:
    findings = diagnose(replace(SOUND, pods=[pod("agent"), *pods]), "1.0")
    assert [(each.status, each.text) for each in findings if each.check == "extender"] == [(status, text)]


@pytest.mark.parametrize(
    ("image", "ours", "text"),
    [
        ("registry:5000/leadsman:1.1", "1.0", "components run 1.0, 1.1"),
        ("registry:5000/leadsman:1.0", "1.1", "the cluster runs 1.0, this program is 1.1"),
        ("registry:5000/leadsman:1.0@sha256:abc", "1.0", "1.0 everywhere"),
    ],
)
def test_versions_are_compared(image: str, ours: str, text: str) -> None:
    findings = diagnose(replace(SOUND, pods=[pod("agent"), pod("extender", image=image)]), ours)
    assert [each.text for each in findings if each.check == "versions"] == [text]
