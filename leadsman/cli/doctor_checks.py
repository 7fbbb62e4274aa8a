"""Checks what `leadsman doctor` saw of a cluster, and gives findings. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from extender.api.overview import SCHEDULER_ASKS, Overview
from leadsman.cli.kubectl import is_ready


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"
    """It could not be looked at; the text says why."""


class Finding(Struct, frozen=True):
    """Says what one check found. what_to_do: "" where nothing is to be done."""

    check: str
    status: Status
    text: str
    what_to_do: str = ""


class Denied(Struct, frozen=True):
    """Says why the cluster did not answer a question."""

    reason: str


PodMetric = float | Denied | None
"""The value of a pod's metric; None: the pod has no such metric."""


class Seen(Struct, frozen=True):
    """Everything that doctor found; a Denied where the cluster refused to say.

    pods: of the namespace, as the API server has them.
    ready_nodes: names of the nodes that are Ready and run Linux.
    clocks: node → seconds that its clock is ahead of the API server's, to about one second.
    sysctl: node → net.ipv4.ping_group_range there, where agents share the node's network.
    rights: what the components need → whether they have it.
    extenders: pod → the /overview of its API.
    leaders: pod of a controller → 1: it leads; none: none runs in the namespace.
    differing: pod of etcd → 1: its data differ from the other members'.
    """

    namespace: str
    server_version: str | Denied
    pods: Sequence[Mapping[str, Any]] | Denied
    ready_nodes: Sequence[str] | Denied
    clocks: Mapping[str, float] | Denied
    sysctl: Mapping[str, str | Denied]
    rights: Mapping[str, bool | Denied]
    extenders: Mapping[str, Overview | Denied] | Denied
    leaders: Mapping[str, PodMetric] = {}
    differing: Mapping[str, PodMetric] = {}


CLOCK_WARNING_SECONDS, CLOCK_ERROR_SECONDS = 5.0, 60.0
"""Leadsman compares no clocks of nodes. Certificates, leases and logs do, and a minute is what they bear."""

CERTIFICATE_WARNING_DAYS, CERTIFICATE_ERROR_DAYS = 30, 7

OLDEST_KUBERNETES = (1, 30)
"""The first whose tokens name the pod's node (KEP-4193), by which etcd's gateway knows an agent."""

NEUTRAL_WARNING_RATIO = 0.01

COMPONENT = "app.kubernetes.io/component"


def diagnose(seen: Seen, our_version: str) -> list[Finding]:
    """Returns all findings, in the order in which an operator should read them. our_version: of this program."""
    findings = list(_kubernetes(seen))
    if isinstance(seen.server_version, Denied):
        return findings
    for check in _CHECKS:
        findings += check(seen)
    return [*findings, *_versions(seen, our_version)]


def _kubernetes(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.server_version, Denied):
        yield Finding("kubernetes", Status.ERROR, seen.server_version.reason, "check --kubeconfig and --context")
        return
    numbers = tuple(int(number) for number in re.findall(r"\d+", seen.server_version)[:2])
    if numbers < OLDEST_KUBERNETES:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        text = f"{seen.server_version} is older than {oldest}: its tokens name no node, so etcd refuses agents"
        yield Finding("kubernetes", Status.ERROR, text, "upgrade the cluster")
    else:
        yield Finding("kubernetes", Status.OK, seen.server_version)


def _agents(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.pods, Denied) or isinstance(seen.ready_nodes, Denied):
        reason = next(each.reason for each in (seen.pods, seen.ready_nodes) if isinstance(each, Denied))
        yield Finding("agents", Status.UNKNOWN, reason, "ask for the right to list pods and nodes")
        return
    running = {pod["spec"].get("nodeName") for pod in pods_of(seen.pods, "agent") if is_ready(pod)}
    missing, total = sorted(set(seen.ready_nodes) - running), len(seen.ready_nodes)
    if not seen.ready_nodes:
        yield Finding("agents", Status.ERROR, "no Linux node of the cluster is Ready", "kubectl get nodes")
    elif missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        text = f"no ready agent on {len(missing)} of {total} ready nodes: {', '.join(missing[:5])}{more}"
        what = f"kubectl get pods -n {seen.namespace} -o wide, and describe what is not ready; mind taints"
        yield Finding("agents", Status.WARNING if running else Status.ERROR, text, what)
    else:
        yield Finding("agents", Status.OK, f"ready on all {total} ready nodes")


def _replicas(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.pods, Denied):
        return
    for component, enough in (("extender", 2), ("etcd", 1)):
        pods = pods_of(seen.pods, component)
        ready, wanted = sum(map(is_ready, pods)), max(len(pods), enough)
        look = f"kubectl describe pods -n {seen.namespace} -l {COMPONENT}={component}"
        if not pods and component == "etcd":
            yield Finding(component, Status.UNKNOWN, f"none runs in {seen.namespace}; it may run elsewhere")
        elif not pods:
            what = f"kubectl get pods -A -l {COMPONENT}={component} shows whether another has: --extender-namespace"
            yield Finding(component, Status.ERROR, f"the namespace {seen.namespace} has no {component} pod", what)
        elif ready == 0:
            yield Finding(component, Status.ERROR, f"none of {len(pods)} is ready", look)
        elif ready < wanted:
            yield Finding(component, Status.WARNING, f"{ready} ready of {wanted}", look)
        else:
            yield Finding(component, Status.OK, f"{ready} ready")


def _rights(seen: Seen) -> Iterator[Finding]:
    what = "apply the manifests of this version again, with their roles"
    lacking = [right for right, allowed in seen.rights.items() if allowed is False]
    yield from (Finding("rights", Status.ERROR, f"{right}: refused", what) for right in lacking)
    unknown = [f"{right}: {why.reason}" for right, why in seen.rights.items() if isinstance(why, Denied)]
    if unknown:
        yield Finding("rights", Status.UNKNOWN, unknown[0], "run it as somebody who may impersonate service accounts")
    elif seen.rights and not lacking:
        yield Finding("rights", Status.OK, f"all {len(seen.rights)} that were asked for are there")


def _clocks(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.clocks, Denied):
        what = "ask for the right to list leases in kube-node-lease"
        yield Finding("clocks", Status.UNKNOWN, seen.clocks.reason, what)
        return
    off = {node: ahead for node, ahead in seen.clocks.items() if abs(ahead) > CLOCK_WARNING_SECONDS}
    for node, ahead in off.items():
        status = Status.ERROR if abs(ahead) > CLOCK_ERROR_SECONDS else Status.WARNING
        text = f"{node} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the API server"
        yield Finding("clocks", status, text, "start NTP on the node (timedatectl set-ntp true)")
    if not seen.clocks:
        yield Finding("clocks", Status.UNKNOWN, "no Lease in kube-node-lease shows a node's clock", "kubectl get nodes")
    elif not off:
        text = f"{len(seen.clocks)} nodes within {CLOCK_WARNING_SECONDS:.0f} s of the API server"
        yield Finding("clocks", Status.OK, text)


def _sysctl(seen: Seen) -> Iterator[Finding]:
    what = (
        "on the node: echo 'net.ipv4.ping_group_range = 0 2147483647' > /etc/sysctl.d/60-leadsman.conf; sysctl --system"
    )
    for node, value in sorted(seen.sysctl.items()):
        if isinstance(value, Denied):
            yield Finding("sysctl", Status.UNKNOWN, f"{node}: {value.reason}", "ask for the right to exec into agents")
            continue
        numbers = [int(number) for number in re.findall(r"\d+", value)]
        if len(numbers) != 2 or numbers[0] > numbers[1]:
            text = f"{node}: net.ipv4.ping_group_range is {value!r}: agents cannot use ICMP and probe by TCP"
            yield Finding("sysctl", Status.WARNING, text, what)
    if seen.sysctl and not any(isinstance(value, Denied) for value in seen.sysctl.values()):
        yield Finding("sysctl", Status.OK, f"net.ipv4.ping_group_range read on {len(seen.sysctl)} nodes")


def _extenders(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.extenders, Denied):
        yield Finding("extender", Status.ERROR, seen.extenders.reason, "see the checks above")
        return
    read = {pod: view for pod, view in seen.extenders.items() if isinstance(view, Overview)}
    for pod, view in seen.extenders.items():
        if isinstance(view, Denied):
            what = "if the pod runs, ask for the right to forward its ports (create pods/portforward)"
            yield Finding("state", Status.ERROR, f"{pod}: {view.reason}", what)
        else:
            yield from _certificate(pod, view)
            yield from _state(pod, view)
    decided = sum(view.decisions.decided for view in read.values())
    neutral = sum(view.decisions.neutral for view in read.values())
    if read and not decided:
        what = "leadsman configure-scheduler adds the extender to its configuration; its log names a failed call"
        text = "kube-scheduler has not asked any replica since they started"
        yield Finding("scheduler", Status.ERROR, text, what)
    elif read:
        text = f"kube-scheduler asked {decided} times since the replicas started"
        yield Finding("scheduler", Status.OK, text)
    if decided and neutral / decided > NEUTRAL_WARNING_RATIO:
        what = "the extender's log says whether they were late or a plugin failed; give it more CPU, or mend the plugin"
        yield Finding("answers", Status.WARNING, f"{neutral / decided:.0%} of the answers are neutral", what)


def _certificate(pod: str, overview: Overview) -> Iterator[Finding]:
    for days in (each.days_left for each in overview.certificates if each.name == "server"):
        if days is None:
            continue
        text = f"{pod}: ends in {days:.0f} days" if days >= 0 else f"{pod}: ended {-days:.0f} days ago"
        if days >= CERTIFICATE_WARNING_DAYS:
            yield Finding("certificate", Status.OK, text)
        else:
            status = Status.WARNING if days >= CERTIFICATE_ERROR_DAYS else Status.ERROR
            what = "leadsman certs renew, then leadsman certs secrets | kubectl apply -f -"
            yield Finding("certificate", status, text, what)


def _state(pod: str, overview: Overview) -> Iterator[Finding]:
    fresh, total = overview.nodes.fresh, sum(structs.astuple(overview.nodes))
    if fresh < total or not total:
        what = "leadsman nodes shows which are not; look at the log of their agents and at etcd"
        status = Status.WARNING if fresh else Status.ERROR
        yield Finding("state", status, f"{pod}: {fresh} of {total} nodes are fresh", what)
    else:
        yield Finding("state", Status.OK, f"{pod}: all {total} nodes are fresh")
    for problem in (each for each in overview.problems if each.name != SCHEDULER_ASKS):
        yield Finding("state", Status.WARNING, f"{pod}: {problem.text}", problem.what_to_do)


def _own_metrics(seen: Seen) -> Iterator[Finding]:
    """Yields what controllers and members of etcd say of themselves. Nothing of what does not run, as controllers in
    many clusters, and of a dry run, which needs no Lease."""
    looks = {
        each: f"kubectl logs -n {seen.namespace} -l {COMPONENT}={each} says why" for each in ("controller", "etcd")
    }
    for component, answers in (("controller", seen.leaders), ("etcd", seen.differing)):
        for pod, answer in answers.items():
            if isinstance(answer, Denied):
                text = f"{pod} does not answer: {answer.reason}"
                yield Finding(component, Status.UNKNOWN, text, looks[component])
    leading = [pod for pod, leads in seen.leaders.items() if leads == 1.0]
    yield from (Finding("controller", Status.OK, f"{pod} leads") for pod in leading)
    if 0.0 in seen.leaders.values() and not leading:
        text = "none of those that answer leads: nothing is planned or done"
        yield Finding("controller", Status.ERROR, text, looks["controller"])
    # Members whose data differ answer each client something else; each compares itself with the others.
    for pod in (pod for pod, differs in seen.differing.items() if differs == 1.0):
        yield Finding("etcd", Status.ERROR, f"the data of {pod} differ from the other members'", looks["etcd"])
    if equal := [*seen.differing.values()].count(0.0):
        yield Finding("etcd", Status.OK, f"{equal} of {len(seen.differing)} members have the same data as the others")


def _versions(seen: Seen, our_version: str) -> Iterator[Finding]:
    pods = () if isinstance(seen.pods, Denied) else seen.pods
    images = {
        container["image"]
        for component in ("agent", "extender", "controller")
        for pod in pods_of(pods, component)
        for container in pod["spec"]["containers"]
        if container["name"] == component  # not what an operator put beside it
    }
    tags = {image.partition("@")[0].rpartition("/")[2].partition(":")[2] for image in images} - {""}
    if len(tags) > 1:
        yield Finding("versions", Status.WARNING, f"components run {', '.join(sorted(tags))}", "finish the rollout")
    elif tags and tags != {our_version}:
        text = f"the cluster runs {tags.pop()}, this program is {our_version}"
        yield Finding("versions", Status.WARNING, text, "use the same")
    elif tags:
        yield Finding("versions", Status.OK, f"{our_version} everywhere")


def pods_of(pods: Sequence[Mapping[str, Any]], component: str) -> list[Mapping[str, Any]]:
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get(COMPONENT) == component]


_CHECKS: Sequence[Callable[[Seen], Iterator[Finding]]] = (
    _agents,
    _replicas,
    _rights,
    _clocks,
    _sysctl,
    _extenders,
    _own_metrics,
)
