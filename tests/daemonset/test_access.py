"""Who may ask the API server for what, and who may talk to whom."""

from typing import TYPE_CHECKING, Any

from controller.replacement import CONFIG_MAP as REPLACEMENT_CONFIG_MAP
from extender.api.token_access import URL
from leadsman.kube.names import (
    BACKUPS_CONFIG_MAP,
    MOVE_PLAN_CONFIG_MAP,
    PLACEHOLDER_NAMESPACE,
    PLACEHOLDER_PRIORITY_CLASS,
    SELF_HEALING_CONFIG_MAP,
)
from leadsman.sources.cluster.cluster_follower import LISTS

if TYPE_CHECKING:
    from tests.daemonset.conftest import Find, Objects

PART = "app.kubernetes.io/component"


PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}
ZONE = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
BIND = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}


PLACES = [
    {"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]}
    for group, resources in (("", ["pods", "nodes"]), ("apps", ["replicasets"]), ("batch", ["jobs"]))
]
CLUSTER_AUTOSCALER_CUTOFF = -10
"""Its --expendable-pods-priority-cutoff."""

ROLES = {
    "leadsman-agent-pods": [PODS, EVENTS, ZONE],
    "leadsman-extender-places": PLACES,
    "leadsman-extender-bind": [BIND],
    "leadsman-extender-events": [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}],
}
WITH_FAILOVER = ("failover", "everything", "files")
WITH_REPLACEMENT = ("replacement", "everything", "files")
WITH_REBALANCE = ("rebalance", "everything", "files")
WITH_MOVE_PLANS = ("move-plans", *WITH_REBALANCE)
WITH_BACKUPS = ("backups", "warm-images", "replacement", "move-plans", "rebalance", *WITH_FAILOVER)
WITH_CONTROLLER = (
    "controller",
    "cluster-model",
    "node-health",
    "placement-events",
    "device-health",
    "shared-plan",
    *WITH_BACKUPS,
)
HEALING = "leadsman-extender-self-healing"
WITH_HEALING = ("self-healing-extender", "everything", "files")
WITH_SECOND_SCHEDULER = ("second-scheduler", "everything", "files")
LOCKED = ("etcd-locked", "everything", "files")
ISSUER = "leadsman-etcd-issuer"
WITH_DEVICES = ("devices", "everything", "files")
ALWAYS = {"leadsman-agent-pods", "leadsman-extender-places", "leadsman-extender-events"}
WITH_TELEMETRY = ("telemetry", "everything", "files")
WITH_PAGE_SERVICE = ("page-service", "everything", "files")
WITH_CLUSTER_MODEL = ("cluster-model", *WITH_BACKUPS)


def test_pods_are_read_by_agents_and_extenders_and_bound_where_the_component_says_so(
    objects: "Objects", build_name: str
) -> None:
    rules = {o["metadata"]["name"]: o["rules"] for o in objects if o["kind"] in ("Role", "ClusterRole")}
    binding = {"leadsman-extender-bind"} if build_name in ("files", "bind", "everything") else set()
    wanted = {name: ROLES[name] for name in ALWAYS | binding}
    assert {name: rule for name, rule in rules.items() if name in ROLES} == wanted
    with_controller = (*WITH_CONTROLLER, *WITH_CLUSTER_MODEL)
    with_other_roles = (
        *WITH_TELEMETRY,
        *with_controller,
        *WITH_HEALING,
        *WITH_SECOND_SCHEDULER,
        *WITH_DEVICES,
        *WITH_PAGE_SERVICE,
        *LOCKED,
    )
    assert build_name in with_other_roles or rules == wanted


def test_the_extender_reads_claims_and_slices_where_it_follows_devices(objects: "Objects", build_name: str) -> None:
    roles = [o for o in objects if o["metadata"]["name"] == "leadsman-extender-devices" and o["kind"] == "ClusterRole"]
    assert bool(roles) == (build_name in WITH_DEVICES)
    assert all(set(rule["verbs"]) == {"list", "watch"} for role in roles for rule in role["rules"])


def test_the_extender_reads_the_config_maps_of_self_healing_and_no_other_where_it_follows_it(
    objects: "Objects", build_name: str
) -> None:
    roles = [o for o in objects if o["metadata"]["name"] == HEALING and o["kind"] == "Role"]
    arguments = [
        argument
        for o in objects
        if o["kind"] == "Deployment" and o["metadata"]["name"] == "leadsman-extender"
        for argument in o["spec"]["template"]["spec"]["containers"][0]["args"]
    ]
    assert bool(roles) == (build_name in WITH_HEALING)
    assert ("--self-healing" in arguments) == (bool(roles) and build_name != "files"), "files: no patch is applied"
    for role in roles:
        [rule] = role["rules"]
        assert role["metadata"]["namespace"] == "leadsman"
        named = [SELF_HEALING_CONFIG_MAP, BACKUPS_CONFIG_MAP]
        assert (rule["resources"], rule["resourceNames"]) == (["configmaps"], named)
        assert rule["verbs"] == ["list", "watch"]


def test_the_cluster_model_reads_what_its_follower_lists_and_nothing_else(objects: "Objects", build_name: str) -> None:
    if build_name not in WITH_CLUSTER_MODEL:
        return
    [rules] = [
        o["rules"] for o in objects if o["metadata"]["name"] == "leadsman-controller-cluster-model" and "rules" in o
    ]
    granted = {(rule["apiGroups"][0], resource) for rule in rules for resource in rule["resources"]}
    listed = {(each.resource.api_version.rpartition("/")[0], each.resource.plural) for each in LISTS.values()}
    assert granted == listed
    assert all(rule["verbs"] == ["list", "watch"] for rule in rules)


def test_the_controller_patches_nodes_and_status_and_writes_one_lease(objects: "Objects", build_name: str) -> None:
    if build_name not in WITH_CONTROLLER:
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
    controller = {"leadsman-controller"} if build_name in WITH_CONTROLLER else set()
    scheduler = {"leadsman-scheduler"} if build_name in WITH_SECOND_SCHEDULER else set()
    issuer = {ISSUER} if build_name in LOCKED else set()
    assert with_token == {"leadsman-agent", "leadsman-extender"} | controller | scheduler | issuer


def test_the_issuer_may_ask_whose_a_token_is_and_nothing_else(objects: "Objects", build_name: str) -> None:
    roles = [o for o in objects if o["metadata"]["name"] == ISSUER and "rules" in o]
    tokens = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    assert [o["rules"] for o in roles] == ([[tokens]] if build_name in LOCKED else [])


def test_the_extender_may_ask_whose_a_token_is_and_what_its_user_may_where_it_serves_the_page(
    objects: "Objects", build_name: str
) -> None:
    roles = {o["metadata"]["name"]: o["rules"] for o in objects if o["kind"] == "ClusterRole"}
    bindings = {o["roleRef"]["name"] for o in objects if o["kind"] == "ClusterRoleBinding"}
    granted = {name: rules for name, rules in roles.items() if "page" in name}
    if build_name not in WITH_PAGE_SERVICE:
        assert granted == {}
        return
    viewer, operator = granted.pop("leadsman-page-viewer"), granted.pop("leadsman-page-operator")
    assert viewer == [{"nonResourceURLs": [URL], "verbs": ["get"]}]
    assert operator == [{"nonResourceURLs": [URL], "verbs": ["get", "post"]}]
    assert not {"leadsman-page-viewer", "leadsman-page-operator"} & bindings, "whom they go to, an operator says"
    assert granted == {
        "leadsman-extender-page": [
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ]
    }


def test_the_page_is_open_to_ingress_controllers_where_it_is_served(find: "Find", build_name: str) -> None:
    is_open = build_name in set(WITH_PAGE_SERVICE) - {"files"}  # files: no patch is applied
    assert open_to(find("NetworkPolicy", "leadsman-extender"), "page") == ({"anyone"} if is_open else set())


def test_only_etcd_s_members_and_the_issuer_have_root_s_password(workloads: "Objects", build_name: str) -> None:
    mounting = {
        w["metadata"]["name"]
        for w in workloads
        if "leadsman-etcd-root" in str(w["spec"]["template"]["spec"].get("volumes", []))
    }
    if build_name != "files":  # No patch is applied there.
        assert mounting == ({"leadsman-etcd", ISSUER} if build_name in LOCKED else set())


def test_the_second_scheduler_has_the_rights_of_the_first_and_one_lease_of_its_own(
    objects: "Objects", build_name: str
) -> None:
    bindings = [
        o
        for o in objects
        if o["kind"] in ("RoleBinding", "ClusterRoleBinding") and o["subjects"][0]["name"] == "leadsman-scheduler"
    ]
    assert bool(bindings) == (build_name in WITH_SECOND_SCHEDULER)
    if bindings:
        assert sorted((o["roleRef"]["name"], o["metadata"].get("namespace", "")) for o in bindings) == [
            ("extension-apiserver-authentication-reader", "kube-system"),
            ("leadsman-scheduler", "leadsman"),
            ("system:kube-scheduler", ""),
            ("system:volume-scheduler", ""),
        ]
        (role,) = [o for o in objects if o["kind"] == "Role" and o["metadata"]["name"] == "leadsman-scheduler"]
        assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"leases"}
        assert [rule.get("resourceNames") for rule in role["rules"] if rule["verbs"] != ["create"]] == [
            ["leadsman-scheduler"]
        ]


def test_no_object_is_a_secret(objects: "Objects") -> None:
    assert "Secret" not in {o["kind"] for o in objects}


def test_every_pod_on_the_pod_network_is_behind_a_policy_for_both_directions(
    objects: "Objects", workloads: "Objects"
) -> None:
    policies = {
        o["spec"]["podSelector"]["matchLabels"][PART]: o["spec"] for o in objects if o["kind"] == "NetworkPolicy"
    }
    inside = {
        w["metadata"]["labels"][PART] for w in workloads if not w["spec"]["template"]["spec"].get("hostNetwork", False)
    }
    assert set(policies) == inside
    assert all(policy["policyTypes"] == ["Ingress", "Egress"] for policy in policies.values())


def test_only_our_own_pods_reach_etcd(find: "Find", build_name: str) -> None:
    callers = open_to(find("NetworkPolicy", "leadsman-etcd"), "client")
    nodes = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"}
    on_host = nodes if build_name in ("hostnetwork", "everything") else set()
    controller = {"controller"} if set(WITH_CONTROLLER) - {"files"} >= {build_name} else set()
    issuer = {"etcd-issuer"} if build_name in ("etcd-locked", "everything") else set()
    assert callers == {"agent", "etcd", "extender"} | controller | on_host | issuer


def test_who_needs_a_credential_may_call_the_issuer(objects: "Objects", build_name: str) -> None:
    for name in ("leadsman-agent", "leadsman-extender", "leadsman-controller"):
        for policy in (o["spec"] for o in objects if (o["kind"], o["metadata"]["name"]) == ("NetworkPolicy", name)):
            credentials = {"port": 9004, "protocol": "TCP"}
            called = [rule["to"][0] for rule in policy["egress"] if credentials in rule.get("ports", [])]
            if build_name != "files":
                assert [name_of(peer) for peer in called] == (["etcd-issuer"] if build_name in LOCKED else [])


def test_etcd_s_members_reach_each_other(find: "Find") -> None:
    assert open_to(find("NetworkPolicy", "leadsman-etcd"), "peer") == {"etcd"}


def test_the_extender_s_scheduling_port_is_open_and_its_metrics_are_prometheus_s(find: "Find") -> None:
    policy = find("NetworkPolicy", "leadsman-extender")
    assert open_to(policy, "https") == {"anyone"}
    assert open_to(policy, "ops") == {"monitoring"}


def test_agents_reach_each_other_by_any_protocol(objects: "Objects") -> None:
    """ICMP has no name in a NetworkPolicy: only a rule without ports lets it pass."""
    for policy in (
        o["spec"] for o in objects if (o["kind"], o["metadata"]["name"]) == ("NetworkPolicy", "leadsman-agent")
    ):
        assert [name_of(rule["from"][0]) for rule in policy["ingress"] if "ports" not in rule] == ["agent"]
        assert [name_of(rule["to"][0]) for rule in policy["egress"] if "ports" not in rule] == ["agent"]


def test_callers_may_call_what_lets_them_in(objects: "Objects") -> None:
    for name in ("leadsman-agent", "leadsman-extender", "leadsman-controller"):
        for policy in (o["spec"] for o in objects if (o["kind"], o["metadata"]["name"]) == ("NetworkPolicy", name)):
            outward = {
                (name_of(rule["to"][0]), p["port"])
                for rule in policy["egress"]
                if "to" in rule
                for p in rule.get("ports", [])
            }
            assert ("etcd", 2379) in outward


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


def test_who_judges_nodes_patches_their_status_and_reads_their_leases_and_nothing_more(
    objects: "Objects", build_name: str
) -> None:
    roles = {o["kind"]: o for o in objects if o["metadata"]["name"] == "leadsman-controller-node-health"}
    assert (build_name in ("node-health", *WITH_BACKUPS)) is bool(roles)
    if roles:
        assert roles["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}]
        assert roles["Role"]["metadata"]["namespace"] == "kube-node-lease"
        leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch"]}
        assert roles["Role"]["rules"] == [leases]


def test_who_keeps_backups_writes_pods_of_the_placeholder_namespace_and_two_config_maps(
    objects: "Objects", build_name: str
) -> None:
    roles = {o["metadata"]["name"]: o for o in objects if o["kind"] == "Role"}
    assert (build_name in WITH_BACKUPS) is ("leadsman-controller-placeholders" in roles)
    if build_name not in WITH_BACKUPS:
        return
    pods, state = roles["leadsman-controller-placeholders"], roles["leadsman-controller-self-healing"]
    assert pods["metadata"]["namespace"] == PLACEHOLDER_NAMESPACE
    assert [(rule["resources"], rule["verbs"]) for rule in pods["rules"]] == [
        (["pods"], ["create", "delete"]),
        (["pods/resize"], ["patch"]),
    ]
    named, create = state["rules"]
    assert named["resourceNames"] == [SELF_HEALING_CONFIG_MAP, BACKUPS_CONFIG_MAP]
    assert (named["verbs"], create["verbs"]) == (["get", "update"], ["create"])


def test_pods_elsewhere_are_deleted_only_with_the_component_failover(objects: "Objects", build_name: str) -> None:
    deleting = {
        o["metadata"]["name"]
        for o in objects
        if o["kind"] == "ClusterRole"
        and any("delete" in rule["verbs"] and "pods" in rule["resources"] for rule in o["rules"])
    }
    assert deleting == ({"leadsman-controller-failover"} if build_name in WITH_FAILOVER else set())


def test_pods_are_evicted_and_never_deleted_by_the_component_replacement(objects: "Objects", build_name: str) -> None:
    names = ("leadsman-controller-replacement", "leadsman-controller-replacement-state")
    mine = [o for o in objects if o["metadata"]["name"] in names and "rules" in o]
    rules = {(o["kind"], o["metadata"].get("namespace", "")): o["rules"] for o in mine}
    if build_name not in WITH_REPLACEMENT:
        assert not rules
        return
    evicting, holding = rules["ClusterRole", ""], rules["Role", PLACEHOLDER_NAMESPACE]
    assert evicting == [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]
    assert holding == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}]
    (state,) = rules["Role", "leadsman"]
    assert (state["resourceNames"], state["verbs"]) == ([REPLACEMENT_CONFIG_MAP], ["get", "update"])


def test_plans_of_moves_bring_the_right_to_evict_and_no_right_to_write_plans(
    objects: "Objects", build_name: str
) -> None:
    names = ("leadsman-controller-move-plans", "leadsman-controller-move-plans-state")
    mine = [o for o in objects if o["metadata"]["name"] in names and "rules" in o]
    rules = {(o["kind"], o["metadata"].get("namespace", "")): o["rules"] for o in mine}
    if build_name not in WITH_MOVE_PLANS:
        assert not rules
        return
    assert rules["ClusterRole", ""] == [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]
    assert rules["Role", PLACEHOLDER_NAMESPACE] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}
    ]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in rules["Role", "leadsman"]] == [
        ([REPLACEMENT_CONFIG_MAP], ["get", "update"]),
        ([MOVE_PLAN_CONFIG_MAP], ["get"]),
    ]


def test_only_rebalancing_writes_plans_of_moves(objects: "Objects", build_name: str) -> None:
    writing = {
        o["metadata"]["name"]
        for o in objects
        if o["kind"] in ("Role", "ClusterRole")
        for rule in o["rules"]
        if MOVE_PLAN_CONFIG_MAP in rule.get("resourceNames", ()) and "update" in rule["verbs"]
    }
    assert writing == ({"leadsman-controller-rebalance"} if build_name in WITH_REBALANCE else set())


def test_placeholders_are_below_ordinary_pods_and_below_what_an_autoscaler_adds_nodes_for(
    objects: "Objects", build_name: str
) -> None:
    classes = {o["metadata"]["name"]: o for o in objects if o["kind"] == "PriorityClass"}
    if build_name not in WITH_BACKUPS:
        return
    placeholders = classes[PLACEHOLDER_PRIORITY_CLASS]
    assert placeholders["value"] < CLUSTER_AUTOSCALER_CUTOFF
    assert (placeholders["globalDefault"], placeholders["preemptionPolicy"]) == (False, "Never")


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
    assert writing == (expected if build_name in ("files", "device-health", "everything") else {})
