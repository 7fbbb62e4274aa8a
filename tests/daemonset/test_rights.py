"""Who may ask the API server for what."""

from typing import Any

import pytest

from leadsman.kube.access import ApiAccess
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.published.moves import MOVE_PLAN, MOVES
from leadsman.published.self_healing import BACKUPS, SELF_HEALING
from leadsman.sources.cluster.cluster_follower import LISTS
from leadsman.sources.wiring import ClusterSources
from tests.daemonset.conftest import BUILDS, ROOT, Find, Objects, Render, builds_with, objects_named

OWN, HELD, ALL = "leadsman", PLACEHOLDER_NAMESPACE, "all"
OF_SELF_HEALING = f"{SELF_HEALING.config_map},{BACKUPS.config_map}"

WRITES = {
    "base": {("etcd", "create tokenreviews", ALL), ("extender", "create events", OWN)},
    "bind": {("extender", "create pods/binding", ALL)},
    "controller": {
        ("controller", "create events", ALL),
        ("controller", "patch nodes", ALL),
        ("controller", "patch taspolicies/status", ALL),
        ("controller", "create leases", OWN),
        ("controller", "update leases leadsman-controller", OWN),
    },
    "self-healing": {
        ("controller", "create pods/eviction", ALL),
        ("controller", "delete pods", ALL),
        ("controller", "patch nodes/status", ALL),
        ("controller", "create configmaps", OWN),
        ("controller", f"update configmaps {MOVES.config_map}", OWN),
        ("controller", f"update configmaps {OF_SELF_HEALING}", OWN),
        ("controller", "create pods", HELD),
        ("controller", "delete pods", HELD),
        ("controller", "patch pods/resize", HELD),
    },
    "rebalance": {("controller", f"update configmaps {MOVE_PLAN.config_map}", OWN)},
    "device-health": {("controller", f"{verb} devicetaintrules", ALL) for verb in ("create", "delete", "patch")},
    "second-scheduler": {
        ("scheduler", "as system:kube-scheduler", ALL),
        ("scheduler", "as system:volume-scheduler", ALL),
        ("scheduler", "as extension-apiserver-authentication-reader", "kube-system"),
        ("scheduler", "create leases", OWN),
        ("scheduler", "update leases leadsman-scheduler", OWN),
    },
}
"""Component → what it lets an account do beside reading: account, verb with resource and the names of the only objects,
namespace."""


@pytest.mark.integration
@pytest.mark.parametrize("build", BUILDS)
def test_each_account_may_write_what_its_components_need_and_nothing_else(build: str, render: Render) -> None:
    expected = set().union(*(WRITES.get(component, set()) for component in ("base", *BUILDS[build])))
    assert set().union(*map(writes_of, bindings(render(build)))) == expected


def bindings(objects: Objects) -> list[tuple[str, str, str, list[dict[str, Any]] | None]]:
    """Account, namespace, role's name and its rules; None: it is one of Kubernetes' own."""
    rules = {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]): o.get("rules") for o in objects}
    found = []
    for each in (o for o in objects if o["kind"].endswith("RoleBinding")):
        (subject,) = each["subjects"]
        assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "leadsman")
        role, namespace = each["roleRef"], each["metadata"].get("namespace")
        named = (role["kind"], namespace if role["kind"] == "Role" else None, role["name"])
        account = subject["name"].removeprefix("leadsman-")
        found.append((account, namespace or ALL, role["name"], rules.get(named)))
    return found


def writes_of(binding: tuple[str, str, str, list[dict[str, Any]] | None]) -> set[tuple[str, str, str]]:
    account, namespace, role, rules = binding
    if rules is None:
        return {(account, f"as {role}", namespace)}
    return {
        (account, " ".join(filter(None, (verb, resource, ",".join(rule.get("resourceNames", ()))))), namespace)
        for rule in rules
        for verb in {*rule["verbs"]} - {"get", "list", "watch"}
        for resource in rule["resources"]
    }


def test_nobody_reads_secrets_and_the_extender_of_config_maps_those_of_self_healing_alone(objects: Objects) -> None:
    roles = [o for o in objects if o["kind"] in ("Role", "ClusterRole")]
    rules = [(role["metadata"]["name"], rule) for role in roles for rule in role["rules"]]
    assert not [name for name, rule in rules if "secrets" in rule["resources"]]
    of_extender = [r for name, r in rules if name.startswith("leadsman-extender") and "configmaps" in r["resources"]]
    assert all(rule["resourceNames"] == OF_SELF_HEALING.split(",") for rule in of_extender)
    assert "Secret" not in {o["kind"] for o in objects}


def test_the_cluster_model_reads_what_its_follower_lists_and_nothing_else(objects: Objects, build_name: str) -> None:
    roles = objects_named(objects, "ClusterRole", "leadsman-controller-cluster-model")
    assert bool(roles) == (build_name in builds_with("self-healing"))
    for role in roles:
        listed = {(each.resource.api_version.rpartition("/")[0], each.resource.plural) for each in LISTS.values()}
        assert granted_by(role) == listed


async def test_the_extender_reads_the_places_that_it_follows_and_nothing_else(objects: Objects) -> None:
    followed = ClusterSources(ApiAccess("http://127.0.0.1:1"))
    listed = {each.list_options.resource for each in (*followed.workloads.reflectors, followed.nodes.reflector)}
    (role,) = objects_named(objects, "ClusterRole", "leadsman-extender-places")
    assert granted_by(role) == {(each.api_version.rpartition("/")[0], each.plural) for each in listed}
    assert all(rule["verbs"] == ["list", "watch"] for rule in role["rules"])


def test_telemetry_policies_are_read_by_who_follows_them(objects: Objects, build_name: str) -> None:
    readers = {
        account
        for account, _, _, rules in bindings(objects)
        for rule in rules or ()
        if "taspolicies" in rule["resources"] and {"list", "watch"} <= {*rule["verbs"]}
    }
    followers = {"extender": "telemetry", "controller": "controller"}
    assert readers == {account for account, component in followers.items() if build_name in builds_with(component)}


def granted_by(role: dict[str, Any]) -> set[tuple[str, str]]:
    return {(rule["apiGroups"][0], resource) for rule in role["rules"] for resource in rule["resources"]}


def test_only_who_asks_the_api_server_has_a_token(objects: Objects, workloads: Objects) -> None:
    assert not any(o["automountServiceAccountToken"] for o in objects if o["kind"] == "ServiceAccount")
    asking = {"leadsman-agent", "leadsman-extender", "leadsman-etcd", "leadsman-controller", "leadsman-scheduler"}
    for workload in workloads:
        has_token = workload["spec"]["template"]["spec"]["automountServiceAccountToken"]
        assert has_token is (workload["metadata"]["name"] in asking)


# Who may talk to whom.

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


# Pods meet the restricted profile: https://kubernetes.io/docs/concepts/security/pod-security-standards/.

SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_syncookies",
}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
NEEDED = {"hostnetwork": {"hostNetwork"}, "host-metrics": {"volume"}, "everything": {"hostNetwork", "volume"}}
"""Build → what its agents need beyond the profile."""


def violations(pod: dict[str, Any]) -> list[str]:
    """The rules of the restricted profile that a pod spec breaks."""
    security = pod.get("securityContext", {})
    broken = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    broken += ["sysctl" for s in security.get("sysctls", []) if s["name"] not in SAFE_SYSCTLS]
    broken += ["volume" for v in pod.get("volumes", []) if not set(v) - {"name"} <= VOLUMES]
    for container in pod["containers"]:
        broken += container_violations(container, security)
    return broken


def container_violations(container: dict[str, Any], pod_security: dict[str, Any]) -> list[str]:
    own = {**pod_security, **container.get("securityContext", {})}
    capabilities = own.get("capabilities", {})
    rules = {
        "runAsNonRoot": own.get("runAsNonRoot") is True and own.get("runAsUser", 1) != 0,
        "seccomp": own.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "escalation": own.get("allowPrivilegeEscalation") is False and not own.get("privileged"),
        "capabilities": capabilities.get("drop") == ["ALL"] and not capabilities.get("add"),
        "hostPort": not any(p.get("hostPort") for p in container.get("ports", [])),
    }
    return [rule for rule, kept in rules.items() if not kept]


def test_every_pod_is_restricted_but_for_what_an_opt_in_component_needs(workloads: Objects, build_name: str) -> None:
    for workload in workloads:
        allowed = NEEDED.get(build_name, set()) if workload["kind"] == "DaemonSet" else set()
        assert set(violations(workload["spec"]["template"]["spec"])) == allowed


def test_the_namespace_enforces_what_its_pods_meet(find: Find, build_name: str) -> None:
    labels = find("Namespace", "leadsman")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == ("privileged" if build_name in NEEDED else "restricted")


def test_root_is_read_only_and_the_user_is_the_image_s(workloads: Objects) -> None:
    assert "\nUSER 10001:10001\n" in (ROOT / "Dockerfile").read_text()
    for workload in workloads:
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in pod["containers"])
