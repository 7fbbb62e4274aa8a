"""Where workloads' pods run, from a fake API server on a real socket."""

from contextlib import asynccontextmanager
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.inputs import PlacedPod
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.cluster.node_followers import NodeFollower
from leadsman.sources.cluster.workload_follower import WorkloadFollower, WorkloadTable
from tests.testbed.background import running
from tests.waiting import until

SETS, JOBS = "/apis/apps/v1/namespaces/default/replicasets", "/apis/batch/v1/namespaces/default/jobs"


@asynccontextmanager
async def following(api, kind=WorkloadFollower):
    async with ApiClient(ApiAccess(api.url), deadline_seconds=60.0) as client:
        one = kind(client)
        async with running((one if kind is WorkloadFollower else one.reflector).run()):
            yield one


@asynccontextmanager
async def places(api):
    async with following(api) as one:
        await until(lambda: one.current.loaded and api.watches == 3)
        yield one


def owned(kind, name, uid="", controller=True):
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": controller}]


def pod(api, name, node="", kind="", owner="", *, uid="", labels=None, **more):
    meta = {"labels": labels or {}} | ({"ownerReferences": owned(kind, owner, uid)} if kind else {})
    meta |= more.pop("metadata", {})
    api.put(f"/api/v1/namespaces/default/pods/{name}", {"metadata": meta, "spec": {"nodeName": node}} | more)


def replica_set(api, name="web-5d", kind="Deployment", owner="web", uid="rs"):
    api.put(f"{SETS}/{name}", {"metadata": {"uid": uid, "ownerReferences": owned(kind, owner)}})


def found(one, name):
    return {kind: set(pods) for kind, pods in one.current.find("default", name).items()}


WEB = {"deployment": {PlacedPod("web-5d-x", "n1")}}


async def test_whose_pod_it_is(api) -> None:
    """Each by its own names, on one API server."""
    replica_set(api)
    pod(api, "web-5d-x", "n1", "ReplicaSet", "web-5d", uid="rs")
    replica_set(api, "canary-7", kind="Rollout", owner="canary", uid="ro")  # Argo's pods have another hash label.
    pod(api, "canary-7-x", "n1", "ReplicaSet", "canary-7", uid="ro")
    replica_set(api, "again-5d", owner="other", uid="new")  # Deleted, and made again under the same name.
    pod(api, "again-5d-x", "n1", "ReplicaSet", "again-5d", uid="old", labels={"pod-template-hash": "5d"})
    for kind in ("StatefulSet", "DaemonSet", "Job"):
        pod(api, f"{kind.lower()}-0", "n1", kind, f"of-{kind.lower()}")
    api.put(f"{JOBS}/night-1", {"metadata": {"uid": "j", "ownerReferences": owned("CronJob", "night")}})
    pod(api, "night-1-x", "n1", "Job", "night-1", uid="j")
    pod(api, "alone", "n1", metadata={"ownerReferences": owned("Tag", "t", controller=False)})
    for node in ("n1", "n2"):
        pod(api, f"kube-proxy-{node}", node, "Node", node)
    pod(api, "db-0", "", "StatefulSet", "db")
    pod(api, "db-1", "n1", "StatefulSet", "db", metadata={"deletionTimestamp": "2026-11-21T01:00:00Z"})
    pod(api, "gone-0", "n1", "StatefulSet", "gone", status={"phase": "Failed"})
    replica_set(api, "empty-1", owner="empty", uid="e")
    n1 = {
        "web": ("deployment", "web-5d-x"),
        "deployment/web": ("deployment", "web-5d-x"),
        "canary": ("rollout", "canary-7-x"),
        "again": ("deployment", "again-5d-x"),
        **{f"of-{kind}": (kind, f"{kind}-0") for kind in ("statefulset", "daemonset", "job")},
        "night": ("cronjob", "night-1-x"),
        "night-1": ("job", "night-1-x"),
        "alone": ("pod", "alone"),
        "pod/alone": ("pod", "alone"),
    }
    async with places(api) as one:
        assert {name: found(one, name) for name in n1} == {
            name: {kind: {PlacedPod(pod, "n1")}} for name, (kind, pod) in n1.items()
        }
        both = {PlacedPod("kube-proxy-n1", "n1"), PlacedPod("kube-proxy-n2", "n2")}
        assert found(one, "kube-proxy") == {"pod": both}
        assert (found(one, "db"), found(one, "empty")) == ({"statefulset": set()}, {"deployment": set()})
        assert [name for name in ("web-5d", "web-5d-x", "n1", "gone") if found(one, name)] == []
        assert one.current.find("elsewhere", "alone") == {}


async def test_a_replica_set_that_comes_after_its_pod_is_worked_in(api) -> None:
    pod(api, "web-5d-x", "n1", "ReplicaSet", "web-5d", uid="rs")
    async with places(api) as one:
        assert set(found(one, "web-5d")) == {"replicaset"}
        replica_set(api)
        await until(lambda: found(one, "web") == WEB)
        assert found(one, "web-5d") == {}


async def test_where_replica_sets_cannot_be_read_the_hash_tells_the_deployment(api) -> None:
    pod(api, "web-5d-x", "n1", "ReplicaSet", "web-5d", labels={"pod-template-hash": "5d"})
    api.deny("replicasets")
    async with following(api) as one:
        await until(lambda: one.current.loaded)
        assert found(one, "web") == WEB
        assert one.owners["ReplicaSet"].errors["Forbidden"]


async def test_places_follow_a_pod_through_its_life(api) -> None:
    async with places(api) as one:
        pod(api, "db-0", "", "StatefulSet", "db")
        await until(lambda: found(one, "db") == {"statefulset": set()})
        pod(api, "db-0", "n1", "StatefulSet", "db")
        await until(lambda: found(one, "db") == {"statefulset": {PlacedPod("db-0", "n1")}})
        pod(api, "db-0", "n1", "StatefulSet", "db", status={"phase": "Succeeded"})
        await until(lambda: found(one, "db") == {})


def node(api, name, labels=None, **status):
    api.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels or {}}, "status": status})


async def touched(api, nodes, labels):
    """Something else of node a changed, and was seen."""
    node(api, "a", labels, phase=f"after {api.objects.revision}")
    await until(lambda: nodes.reflector.get(("", "a")).metadata.resource_version == str(api.objects.revision))


CLOUD, EDGE = {"kubernetes.io/role": "cloud"}, {"kubernetes.io/role": "edge"}


async def test_all_nodes_are_there_with_their_role_and_change_only_with_it(api) -> None:
    node(api, "a", CLOUD)
    node(api, "b")
    async with following(api, NodeFollower) as nodes:
        await until(lambda: nodes.roles == {"a": "cloud", "b": ""})
        first = nodes.roles
        await until(lambda: api.watches)
        node(api, "a", CLOUD, phase="touched")
        node(api, "b", EDGE)
        await until(lambda: nodes.roles == {"a": "cloud", "b": "edge"})
        second = nodes.roles
        await touched(api, nodes, CLOUD)
        assert nodes.roles is second
        node(api, "c", EDGE)
        await until(lambda: "c" in nodes.roles)
        assert first == {"a": "cloud", "b": ""}
        assert second == {"a": "cloud", "b": "edge"}
        node(api, "a")
        await until(lambda: nodes.roles == {"a": "", "b": "edge", "c": "edge"})


async def test_labels_change_only_with_them_and_are_unknown_where_some_were_cut(api) -> None:
    node(api, "a", {"pool": "gpu"})
    node(api, "b", {"many": "x" * 20_000})
    async with following(api, NodeFollower) as nodes:
        assert nodes.labels is None
        await until(lambda: nodes.labels is not None)
        first = nodes.labels
        assert first == {"a": {"pool": "gpu"}}, "of b not all labels are known"
        await until(lambda: api.watches)
        await touched(api, nodes, {"pool": "gpu"})
        assert nodes.labels is first
        node(api, "a", {"pool": "cpu"})
        await until(lambda: nodes.labels == {"a": {"pool": "cpu"}})


async def test_addresses_follow_their_nodes(api) -> None:
    def at(name, address):
        node(api, name, addresses=[{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}])

    at("a", "10.0.0.1")
    async with following(api, partial(NodeFollower, with_addresses=True)) as nodes:
        await until(lambda: nodes.addresses == {"10.0.0.1": "a"} and api.watches)
        at("a", "10.0.0.2")
        at("b", "10.0.0.1")
        await until(lambda: nodes.addresses == {"10.0.0.1": "b", "10.0.0.2": "a"})
        api.delete("/api/v1/nodes/a")
        await until(lambda: nodes.addresses == {"10.0.0.1": "b"})


# The table of workloads, change by change.

pods, nodes = st.sampled_from("abcd"), st.sampled_from([None, "n1", "n2"])
owners = st.lists(st.tuples(st.just("ns"), st.sampled_from(["job", "cronjob"]), st.sampled_from("xy")), max_size=2)
puts = st.tuples(pods, owners.map(lambda some: tuple(dict.fromkeys(some))), nodes)


@given(st.lists(st.one_of(puts, pods), max_size=20), st.integers(1, 5))
def test_changes_one_by_one_equal_the_table_of_what_is_left(steps, every) -> None:
    """A table that was taken does not change."""
    workloads, left, taken = WorkloadTable(), {}, []
    for number, step in enumerate(steps):
        if isinstance(step, str):
            workloads.drop("ns", ("pod", step))
            left.pop(step, None)
        else:
            pod, of, node = step
            workloads.put("ns", ("pod", pod), of, node and PlacedPod(pod, node))
            left[pod] = (of, node)
        if number % every == 0:
            workloads.publish()
            taken.append((workloads.table, expected(left)))
    workloads.publish()
    for table, wanted in [*taken, (workloads.table, expected(left))]:
        assert table == wanted


def expected(left):
    table = {}
    for pod, (of, node) in sorted(left.items()):
        for namespace, kind, name in of:
            kinds = table.setdefault((namespace, name), {})
            kinds[kind] = kinds.get(kind, ()) + ((PlacedPod(pod, node),) if node else ())
    return table
