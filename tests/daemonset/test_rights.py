"""Who may ask the API server for what."""

from typing import Any

import pytest

from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.published.backups import BACKUPS
from leadsman.published.move_plan import MOVE_PLAN
from leadsman.published.moves import MOVES
from leadsman.published.self_healing import SELF_HEALING
from leadsman.sources.cluster.cluster_follower import LISTS
from tests.daemonset.conftest import BUILDS, Objects, Render, builds_with, objects_named

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
        (account, " ".join([verb, resource, *named_in(rule)]), namespace)
        for rule in rules
        for verb in {*rule["verbs"]} - {"get", "list", "watch"}
        for resource in rule["resources"]
    }


def named_in(rule: dict[str, Any]) -> list[str]:
    return [",".join(rule["resourceNames"])] if "resourceNames" in rule else []


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
        granted = {(rule["apiGroups"][0], resource) for rule in role["rules"] for resource in rule["resources"]}
        listed = {(each.resource.api_version.rpartition("/")[0], each.resource.plural) for each in LISTS.values()}
        assert granted == listed


def test_only_who_asks_the_api_server_has_a_token(objects: Objects, workloads: Objects) -> None:
    assert not any(o["automountServiceAccountToken"] for o in objects if o["kind"] == "ServiceAccount")
    asking = {"leadsman-agent", "leadsman-extender", "leadsman-etcd", "leadsman-controller", "leadsman-scheduler"}
    for workload in workloads:
        has_token = workload["spec"]["template"]["spec"]["automountServiceAccountToken"]
        assert has_token is (workload["metadata"]["name"] in asking)
