"""Who may ask the API server for what."""

from typing import TYPE_CHECKING

from leadsman.kube.names import (
    PLACEHOLDER_NAMESPACE,
)
from leadsman.published.backups import BACKUPS
from leadsman.published.move_plan import MOVE_PLAN
from leadsman.published.moves import MOVES
from leadsman.published.self_healing import SELF_HEALING
from leadsman.sources.cluster.cluster_follower import LISTS
from tests.daemonset.conftest import builds_with, objects_named

if TYPE_CHECKING:
    from tests.daemonset.conftest import Objects

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}
ZONE = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
BIND = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
PLACES = [
    {"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]}
    for group, resources in (("", ["pods", "nodes"]), ("apps", ["replicasets"]), ("batch", ["jobs"]))
]

ROLES = {
    "leadsman-agent-pods": [PODS, EVENTS, ZONE],
    "leadsman-extender-places": PLACES,
    "leadsman-extender-bind": [BIND],
    "leadsman-extender-events": [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}],
    "leadsman-etcd": [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}],
}
ALWAYS = {"leadsman-agent-pods", "leadsman-extender-places", "leadsman-extender-events", "leadsman-etcd"}
COMPONENTS_WITH_ROLES = (
    "telemetry",
    "controller",
    "second-scheduler",
    "devices",
)
"""Besides bind."""
HEALING = "leadsman-extender-self-healing"


def test_pods_are_read_by_agents_and_extenders_and_bound_where_the_component_says_so(
    objects: "Objects", build_name: str
) -> None:
    rules = {o["metadata"]["name"]: o["rules"] for o in objects if o["kind"] in ("Role", "ClusterRole")}
    binding = {"leadsman-extender-bind"} if build_name in builds_with("bind") else set()
    wanted = {name: ROLES[name] for name in ALWAYS | binding}
    assert {name: rule for name, rule in rules.items() if name in ROLES} == wanted
    has_other_roles = any(build_name in builds_with(component) for component in COMPONENTS_WITH_ROLES)
    assert has_other_roles or rules == wanted


def test_the_extender_reads_claims_and_slices_where_it_follows_devices(objects: "Objects", build_name: str) -> None:
    roles = objects_named(objects, "ClusterRole", "leadsman-extender-devices")
    assert bool(roles) == (build_name in builds_with("devices"))
    assert all(set(rule["verbs"]) == {"list", "watch"} for role in roles for rule in role["rules"])


def test_the_extender_reads_the_config_maps_of_self_healing_and_no_other_where_it_follows_it(
    objects: "Objects", build_name: str
) -> None:
    roles = objects_named(objects, "Role", HEALING)
    arguments = [
        argument
        for o in objects_named(objects, "Deployment", "leadsman-extender")
        for argument in o["spec"]["template"]["spec"]["containers"][0]["args"]
    ]
    assert bool(roles) == (build_name in builds_with("self-healing"))
    assert ("--self-healing" in arguments) == (bool(roles) and build_name != "files"), "files: no patch is applied"
    for role in roles:
        [rule] = role["rules"]
        assert role["metadata"]["namespace"] == "leadsman"
        named = [SELF_HEALING.config_map, BACKUPS.config_map]
        assert (rule["resources"], rule["resourceNames"]) == (["configmaps"], named)
        assert rule["verbs"] == ["list", "watch"]


def test_the_cluster_model_reads_what_its_follower_lists_and_nothing_else(objects: "Objects", build_name: str) -> None:
    if build_name not in builds_with("self-healing"):
        return
    [rules] = [
        o["rules"] for o in objects if o["metadata"]["name"] == "leadsman-controller-cluster-model" and "rules" in o
    ]
    granted = {(rule["apiGroups"][0], resource) for rule in rules for resource in rule["resources"]}
    listed = {(each.resource.api_version.rpartition("/")[0], each.resource.plural) for each in LISTS.values()}
    assert granted == listed
    assert all(rule["verbs"] == ["list", "watch"] for rule in rules)


def test_the_controller_patches_nodes_and_status_and_writes_one_lease(objects: "Objects", build_name: str) -> None:
    if build_name not in builds_with("controller"):
        return
    roles = {o["kind"]: o["rules"] for o in objects if o["metadata"]["name"] == "leadsman-controller" and "rules" in o}
    writes = {
        f"{rule['apiGroups'][0]}/{resource}": set(rule["verbs"]) - {"get", "list", "watch"}
        for rule in roles["ClusterRole"]
        for resource in rule["resources"]
    }
    assert {resource: verbs for resource, verbs in writes.items() if verbs} == {
        "/nodes": {"patch"},
        "telemetry.intel.com/taspolicies/status": {"patch"},
        "events.k8s.io/events": {"create"},
    }
    assert EVENTS in roles["ClusterRole"]
    assert all(any(wanted["resources"] == rule["resources"] for rule in roles["ClusterRole"]) for wanted in PLACES[1:])
    named, create = roles["Role"]
    assert (named["resourceNames"], set(named["verbs"])) == (["leadsman-controller"], {"get", "update"})
    assert create["verbs"] == ["create"]


def test_roles_go_to_our_own_accounts_only(objects: "Objects") -> None:
    accounts = {o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount"}
    for binding in (o for o in objects if o["kind"].endswith("RoleBinding")):
        assert {(s["kind"], s["namespace"]) for s in binding["subjects"]} == {("ServiceAccount", "leadsman")}
        assert {s["name"] for s in binding["subjects"]} <= accounts


def test_only_who_asks_the_api_server_has_a_token(objects: "Objects", workloads: "Objects", build_name: str) -> None:
    assert not any(o["automountServiceAccountToken"] for o in objects if o["kind"] == "ServiceAccount")
    with_token = {
        w["metadata"]["name"] for w in workloads if w["spec"]["template"]["spec"]["automountServiceAccountToken"]
    }
    controller = {"leadsman-controller"} if build_name in builds_with("controller") else set()
    scheduler = {"leadsman-scheduler"} if build_name in builds_with("second-scheduler") else set()
    assert with_token == {"leadsman-agent", "leadsman-extender", "leadsman-etcd"} | controller | scheduler


def test_the_second_scheduler_has_the_rights_of_the_first_and_one_lease_of_its_own(
    objects: "Objects", build_name: str
) -> None:
    bindings = [
        o
        for o in objects
        if o["kind"] in ("RoleBinding", "ClusterRoleBinding") and o["subjects"][0]["name"] == "leadsman-scheduler"
    ]
    assert bool(bindings) == (build_name in builds_with("second-scheduler"))
    if bindings:
        assert sorted((o["roleRef"]["name"], o["metadata"].get("namespace", "")) for o in bindings) == [
            ("extension-apiserver-authentication-reader", "kube-system"),
            ("leadsman-scheduler", "leadsman"),
            ("system:kube-scheduler", ""),
            ("system:volume-scheduler", ""),
        ]
        (role,) = objects_named(objects, "Role", "leadsman-scheduler")
        assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"leases"}
        assert [rule.get("resourceNames") for rule in role["rules"] if rule["verbs"] != ["create"]] == [
            ["leadsman-scheduler"]
        ]


def test_no_object_is_a_secret(objects: "Objects") -> None:
    assert "Secret" not in {o["kind"] for o in objects}


def test_who_judges_nodes_patches_their_status_and_reads_their_leases_and_nothing_more(
    objects: "Objects", build_name: str
) -> None:
    roles = {o["kind"]: o for o in objects if o["metadata"]["name"] == "leadsman-controller-node-health"}
    assert (build_name in builds_with("self-healing")) is bool(roles)
    if roles:
        assert roles["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}]
        assert roles["Role"]["metadata"]["namespace"] == "kube-node-lease"
        leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch"]}
        assert roles["Role"]["rules"] == [leases]


def test_who_keeps_backups_writes_pods_of_the_placeholder_namespace_and_two_config_maps(
    objects: "Objects", build_name: str
) -> None:
    roles = {o["metadata"]["name"]: o for o in objects if o["kind"] == "Role"}
    assert (build_name in builds_with("self-healing")) is ("leadsman-controller-placeholders" in roles)
    if build_name not in builds_with("self-healing"):
        return
    pods, state = roles["leadsman-controller-placeholders"], roles["leadsman-controller-self-healing"]
    assert pods["metadata"]["namespace"] == PLACEHOLDER_NAMESPACE
    assert [(rule["resources"], rule["verbs"]) for rule in pods["rules"]] == [
        (["pods"], ["create", "delete"]),
        (["pods/resize"], ["patch"]),
    ]
    named, create = state["rules"]
    assert named["resourceNames"] == [SELF_HEALING.config_map, BACKUPS.config_map]
    assert (named["verbs"], create["verbs"]) == (["get", "update"], ["create"])


def test_pods_elsewhere_are_deleted_only_with_self_healing(objects: "Objects", build_name: str) -> None:
    deleting = {
        o["metadata"]["name"]
        for o in objects
        if o["kind"] == "ClusterRole"
        and any("delete" in rule["verbs"] and "pods" in rule["resources"] for rule in o["rules"])
    }
    assert deleting == ({"leadsman-controller-failover"} if build_name in builds_with("self-healing") else set())


def test_pods_are_evicted_and_never_deleted_by_re_placement(objects: "Objects", build_name: str) -> None:
    names = ("leadsman-controller-replacement", "leadsman-controller-replacement-state")
    mine = [o for o in objects if o["metadata"]["name"] in names and "rules" in o]
    rules = {(o["kind"], o["metadata"].get("namespace", "")): o["rules"] for o in mine}
    if build_name not in builds_with("self-healing"):
        assert not rules
        return
    evicting, holding = rules["ClusterRole", ""], rules["Role", PLACEHOLDER_NAMESPACE]
    assert evicting == [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]
    assert holding == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}]
    (state,) = rules["Role", "leadsman"]
    assert (state["resourceNames"], state["verbs"]) == ([MOVES.config_map], ["get", "update"])


def test_plans_of_moves_bring_the_right_to_evict_and_no_right_to_write_plans(
    objects: "Objects", build_name: str
) -> None:
    names = ("leadsman-controller-move-plans", "leadsman-controller-move-plans-state")
    mine = [o for o in objects if o["metadata"]["name"] in names and "rules" in o]
    rules = {(o["kind"], o["metadata"].get("namespace", "")): o["rules"] for o in mine}
    if build_name not in builds_with("move-plans"):
        assert not rules
        return
    assert rules["ClusterRole", ""] == [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]
    assert rules["Role", PLACEHOLDER_NAMESPACE] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}
    ]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in rules["Role", "leadsman"]] == [
        ([MOVES.config_map], ["get", "update"]),
        ([MOVE_PLAN.config_map], ["get"]),
    ]


def test_only_rebalancing_writes_plans_of_moves(objects: "Objects", build_name: str) -> None:
    writing = {
        o["metadata"]["name"]
        for o in objects
        if o["kind"] in ("Role", "ClusterRole")
        for rule in o["rules"]
        if MOVE_PLAN.config_map in rule.get("resourceNames", ()) and "update" in rule["verbs"]
    }
    assert writing == ({"leadsman-controller-rebalance"} if build_name in builds_with("rebalance") else set())


def test_device_taint_rules_are_written_only_with_the_component_device_health(
    objects: "Objects", build_name: str
) -> None:
    writing = {
        o["metadata"]["name"]: rule["resources"]
        for o in objects
        for rule in o.get("rules") or ()
        if rule.get("apiGroups") == ["resource.k8s.io"] and "create" in rule["verbs"]
    }
    expected = {"leadsman-controller-device-health": ["devicetaintrules"]}
    assert writing == (expected if build_name in builds_with("device-health") else {})
