"""Who may talk to whom."""

from typing import Any

from tests.daemonset.conftest import Find, Objects, builds_with, objects_named

PART = "app.kubernetes.io/component"


def test_every_pod_on_the_pod_network_is_behind_a_policy_for_both_directions(
    objects: Objects, workloads: Objects
) -> None:
    policies = {
        o["spec"]["podSelector"]["matchLabels"][PART]: o["spec"] for o in objects if o["kind"] == "NetworkPolicy"
    }
    inside = {
        w["metadata"]["labels"][PART] for w in workloads if not w["spec"]["template"]["spec"].get("hostNetwork", False)
    }
    assert set(policies) == inside
    assert all(policy["policyTypes"] == ["Ingress", "Egress"] for policy in policies.values())


def test_only_our_own_pods_reach_etcd_s_gateways_and_members_alone_each_other(find: Find, build_name: str) -> None:
    policy = find("NetworkPolicy", "leadsman-etcd")
    nodes = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"}
    on_host = nodes if build_name in builds_with("hostnetwork") else set()
    assert open_to(policy, "https") == {"agent", "etcd", "extender", "controller"} | on_host
    assert open_to(policy, "peer") == {"etcd"}


def test_the_extender_s_scheduling_port_is_open_and_its_metrics_are_prometheus_s(find: Find) -> None:
    policy = find("NetworkPolicy", "leadsman-extender")
    assert open_to(policy, "https") == {"anyone"}
    assert open_to(policy, "ops") == {"monitoring"}


def test_agents_reach_each_other_by_any_protocol(objects: Objects) -> None:
    """ICMP has no name in a NetworkPolicy: only a rule without ports lets it pass."""
    for policy in objects_named(objects, "NetworkPolicy", "leadsman-agent"):
        assert [name_of(rule["from"][0]) for rule in policy["spec"]["ingress"] if "ports" not in rule] == ["agent"]
        assert [name_of(rule["to"][0]) for rule in policy["spec"]["egress"] if "ports" not in rule] == ["agent"]


def open_to(policy: dict[str, Any], port: str) -> set[str]:
    """Who may come in on the named port."""
    rules = [r for r in policy["spec"]["ingress"] if port in [p["port"] for p in r.get("ports", [])]]
    return {name_of(peer) for rule in rules for peer in rule.get("from", [None])}


def name_of(peer: dict[str, Any] | None) -> str:
    if peer is None:
        return "anyone"
    if "ipBlock" in peer:
        return peer["ipBlock"]["cidr"]
    if "namespaceSelector" in peer:
        return peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    return peer["podSelector"]["matchLabels"][PART]
