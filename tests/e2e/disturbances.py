"""What is done to the cluster while bounded pods are sent."""

import ssl
import time
from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

from tests.e2e.cluster import Cluster
from tests.e2e.images import SANDBOX
from tests.e2e.node import Node
from tests.e2e.rollout import Rollout
from tests.e2e.state_watch import EXTENDERS, StateWatch, controller_series
from tests.testbed.certificates import CertificateAuthority

Disturbance = Callable[[Cluster, Rollout], str | None]
"""Returns what was seen, if there is more to say than what became of the stream."""

PODS = "/api/v1/namespaces/leadsman/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/leadsman/leases"
FIRST = 0
"""The node of kube-scheduler, on which the bounded pods are: it is not lost."""

AWAY_SECONDS = 25.0


class Skipped(RuntimeError):
    """This cluster has not what the row is about."""


def update(what: str) -> Disturbance:
    return lambda _, rollout: rollout.update(what)


def update_etcd(cluster: Cluster, rollout: Rollout) -> None:
    if len(nodes_by_part(cluster)["etcd"]) < 3:
        raise Skipped("etcd has one member, whose update is an outage of seconds")
    rollout.update("statefulset/leadsman-etcd")


def update_all(_: Cluster, rollout: Rollout) -> None:
    """One part after another."""
    for what in rollout.parts():
        rollout.update(what)


def drain(cluster: Cluster, rollout: Rollout) -> None:
    """A node with an extender, and back."""
    node = node_of(cluster, "extender")
    cluster.kubectl("drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s")
    rollout.wait_for_all()
    cluster.kubectl("uncordon", node.name)


def lose(part: str) -> Disturbance:
    """Cuts the node of the part off, until it is NotReady and everything runs elsewhere; then it boots again."""

    def disturb(cluster: Cluster, rollout: Rollout) -> None:
        node = node_of(cluster, part)
        node.lose()
        cluster.until(lambda: not cluster.is_ready(node.name), f"{node.name} is NotReady")
        cluster.until(StateWatch(cluster).is_whole, "the living nodes' reports are seen")
        node.start(cluster.images)
        cluster.until(lambda: cluster.is_ready(node.name), f"{node.name} is Ready")
        rollout.wait_for_all()
        cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")

    return disturb


def while_pods_wait(disturb: Disturbance) -> Disturbance:
    """With `ignorable: false` from before to after it: what no extender checked waits instead of being bound."""

    def waiting(cluster: Cluster, rollout: Rollout) -> str | None:
        before = rollout.ignorable
        rollout.configure_scheduler(ignorable=False)
        try:
            return disturb(cluster, rollout)
        finally:
            rollout.configure_scheduler(before)

    return waiting


def take_extenders_away(cluster: Cluster, rollout: Rollout) -> str:
    """All, for AWAY_SECONDS. One comes back by the page's hand, if kube-scheduler would wait for it."""
    cluster.kubectl("-n", "leadsman", "scale", "deployment/leadsman-extender", "--replicas=0")
    cluster.until(lambda: not cluster.api.call("GET", EXTENDERS)["items"], "all extenders are gone")
    time.sleep(AWAY_SECONDS)
    said = "" if rollout.ignorable else _why_pods_wait(cluster)
    cluster.kubectl("-n", "leadsman", "scale", "deployment/leadsman-extender", "--replicas=2")
    if not rollout.ignorable:
        cluster.until(lambda: cluster.api.call("GET", EXTENDERS)["items"], "an extender waits to be placed")
        _bind_by_hand(cluster, cluster.api.call("GET", EXTENDERS)["items"][0]["metadata"]["name"])
    rollout.wait("deployment/leadsman-extender")
    cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
    unchecked = controller_series(cluster, 'leadsman_controller_bound_pods_total{result="unchecked"}')
    return said or f"{max(unchecked, default=0):.0f} counted for the alert LeadsmanBoundUnchecked by then"


def _why_pods_wait(cluster: Cluster) -> str:
    """What the newest Event of kube-scheduler says."""
    selector = "fieldSelector=reason%3DFailedScheduling"
    events = cluster.api.call("GET", f"/api/v1/namespaces/default/events?{selector}")["items"]
    newest = max(events, key=lambda event: event["metadata"]["creationTimestamp"], default={"message": "no Event"})
    return f"FailedScheduling: {newest['message'][:120]}"


def _bind_by_hand(cluster: Cluster, name: str) -> None:
    """As docs/deploying.md has it."""
    target = {"apiVersion": "v1", "kind": "Node", "name": cluster.nodes[FIRST].name}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    cluster.api.call("POST", f"{PODS}/{name}/binding", binding)


def reboot_all(cluster: Cluster, rollout: Rollout) -> str:
    """All nodes lose their power at once, and boot."""
    for node in cluster.nodes:
        node.lose()
    began = time.monotonic()
    for node in cluster.nodes:
        node.start(cluster.images)
    cluster.restart_scheduler()
    cluster.until(lambda: all(cluster.is_ready(node.name) for node in cluster.nodes), "all nodes are Ready")
    ready = time.monotonic() - began
    cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
    whole = time.monotonic() - began
    rollout.wait_for_all()
    return f"Ready {ready:.0f} s and whole {whole:.0f} s after the boot"


def take_api_server_away(cluster: Cluster, seconds: float) -> None:
    """An outage that is noticed, not only a broken connection."""
    cluster.api.stop()
    time.sleep(seconds)
    cluster.api.start()
    cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")


def rotate_tokens(cluster: Cluster, rollout: Rollout) -> None:
    """A new key signs ServiceAccount tokens, kubelets hand out new ones, and then the old ones are refused."""
    api, flags = cluster.api, cluster.api.flags
    old = api.folder / "accounts-old.crt"
    (api.folder / "accounts.crt").rename(old)
    CertificateAuthority().issue("service-accounts").write(api.folder, "accounts")
    api.flags = (*flags, f"--service-account-key-file={old}")
    _restart(cluster)
    for node in cluster.nodes:  # One by one: two cores start no six kubelets and answer kube-scheduler too.
        _renew_tokens(cluster, node)
    api.flags = flags
    _restart(cluster)
    _follows_new_pods(cluster)
    rollout.wait_for_all()


def renew_certificates(cluster: Cluster, rollout: Rollout) -> None:
    """As the docs have it: new pairs of the same CA, read by running extenders, then by kube-scheduler."""
    served = _served_certificates(cluster)
    rollout.leadsman("certs", "renew")
    rollout.apply_certificates()
    cluster.until(lambda: not served & _served_certificates(cluster), "all extenders show the new certificate", 300)
    cluster.restart_scheduler()
    _follows_new_pods(cluster)


def _restart(cluster: Cluster) -> None:
    cluster.api.stop()
    cluster.api.start()


def _follows_new_pods(cluster: Cluster) -> None:
    """Whether a bound to a pod that is new is kept: the extenders' watches go on with what is valid now."""
    pods, last = "/api/v1/namespaces/default/pods", cluster.nodes[-1].name
    containers = [{"name": "main", "image": SANDBOX}]
    anchor = {"metadata": {"name": "anchor"}, "spec": {"nodeName": last, "containers": containers}}
    beside = {"metadata": {"name": "beside", "labels": {"delay_anchor": "0"}}, "spec": {"containers": containers}}
    for pod in (anchor, beside):
        cluster.api.call("POST", pods, pod)
    try:
        cluster.until(lambda: cluster.api.call("GET", f"{pods}/beside")["spec"].get("nodeName"), "beside is bound")
        node = cluster.api.call("GET", f"{pods}/beside")["spec"]["nodeName"]
        if node != last:
            raise RuntimeError(f"a pod bound to one on {last} went to {node}")
    finally:
        for name in ("anchor", "beside"):
            cluster.api.call("DELETE", f"{pods}/{name}?gracePeriodSeconds=0")


def _renew_tokens(cluster: Cluster, node: Node) -> None:
    """Its kubelet reads no token from before when it starts again."""
    before = _tokens(cluster, node)
    node.kill_kubelet()
    cluster.until(lambda: not before & _tokens(cluster, node), f"Leadsman on {node.name} has new tokens", 300)


def _tokens(cluster: Cluster, node: Node) -> Set[str]:
    """Those of Leadsman's pods, read where kubelets write them. OSError while the kubelet starts again."""
    tokens = set[str]()
    for pod in cluster.api.call("GET", f"{PODS}?fieldSelector=spec.nodeName%3D{node.name}")["items"]:
        volumes = f"var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~projected"
        tokens |= {token.read_text() for token in node.root_of_kubelet().glob(f"{volumes}/*/token")}
    return tokens


def _served_certificates(cluster: Cluster) -> set[str]:
    pods = cluster.api.call("GET", EXTENDERS)["items"]
    return {ssl.get_server_certificate((pod["status"]["podIP"], 9001)) for pod in pods}


def node_of(cluster: Cluster, part: str, but: Collection[Node] = ()) -> Node:
    """One with a pod of the part that is not the first node. part: agent: a node with nothing else, if there is one.

    but: neither of these.
    """
    by_part = nodes_by_part(cluster)
    if part == "agent":
        others = by_part["etcd"] | by_part["extender"] | by_part["controller"]
        names = {node.name for node in cluster.nodes[FIRST + 1 :]}
        candidates = names - others or names
    elif part in ("controller", "scheduler"):
        candidates = {_leader_elsewhere(cluster, part)}
    else:
        candidates = by_part[part]
    usable = [node for node in cluster.nodes[FIRST + 1 :] if node.name in candidates and node not in but]
    if not usable:
        raise Skipped(f"no node but the first has {part}: {', '.join(sorted(candidates)) or 'none'}")
    return usable[-1]


def _leader_elsewhere(cluster: Cluster, part: str) -> str:
    """The node of the replica that leads, once that is not the first: else it gives the Lease up by its end."""

    def leader() -> Mapping[str, Any] | None:
        holder = cluster.api.call("GET", f"{LEASES}/leadsman-{part}")["spec"].get("holderIdentity") or ""
        pods = cluster.api.call("GET", PODS)["items"]
        return next((pod for pod in pods if holder.startswith(pod["metadata"]["name"])), None)

    def elsewhere() -> bool:
        pod = leader()
        if pod is not None and pod["spec"]["nodeName"] == cluster.nodes[FIRST].name:
            if "deletionTimestamp" not in pod["metadata"]:
                cluster.api.call("DELETE", f"{PODS}/{pod['metadata']['name']}")
            return False
        return pod is not None

    cluster.until(elsewhere, f"a {part} leads that is not on the first node")
    pod = leader()
    return str(pod["spec"]["nodeName"]) if pod else ""


def nodes_by_part(cluster: Cluster) -> Mapping[str, set[str]]:
    """Component → the nodes of its pods."""
    nodes: dict[str, set[str]] = {"etcd": set(), "extender": set(), "controller": set(), "agent": set()}
    for pod in cluster.api.call("GET", PODS)["items"]:
        part = pod["metadata"]["labels"].get("app.kubernetes.io/component", "")
        nodes.setdefault(part, set()).add(pod["spec"].get("nodeName", ""))
    return nodes
