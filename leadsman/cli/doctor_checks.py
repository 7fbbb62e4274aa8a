"""What `leadsman doctor` saw of a cluster, and the checks that read it and give findings. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from extender.api.overview import Overview


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"
    """It could not be looked at; the text says why."""


class Finding(Struct, frozen=True):
    """What one check says. what_to_do: "" where nothing is to be done."""

    check: str
    status: Status
    text: str
    what_to_do: str = ""


class Denied(Struct, frozen=True):
    """A question that the cluster did not answer, and why."""

    reason: str


class ClockReading(Struct, frozen=True):
    """A node's clock against that of the API server: seconds that the node is ahead, to about one second."""

    node: str
    ahead_seconds: float


class ExtenderView(Struct, frozen=True):
    """What one extender pod says of itself: the /overview of its API."""

    pod: str
    overview: Overview | Denied


class ControllerView(Struct, frozen=True):
    """What one controller pod says of itself. leads: None: it is a dry run, which needs no Lease."""

    pod: str
    leads: bool | Denied | None


class Seen(Struct, frozen=True):
    """Everything that `gathering` found; a Denied where the cluster refused to say.

    now: Unix seconds.
    pods: of the namespace, as the API server has them.
    ready_nodes: names of the nodes that are Ready and run Linux.
    sysctl: node → net.ipv4.ping_group_range there, where agents share the node's network.
    rights: what the components need → whether they have it.
    controllers: (): none runs in the namespace.
    """

    now: float
    namespace: str
    server_version: str | Denied
    pods: Sequence[Mapping[str, Any]] | Denied
    ready_nodes: Sequence[str] | Denied
    clocks: Sequence[ClockReading] | Denied
    sysctl: Mapping[str, str | Denied]
    rights: Mapping[str, bool | Denied]
    extenders: Sequence[ExtenderView] | Denied
    controllers: Sequence[ControllerView] = ()


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
    if not seen.ready_nodes:
        yield Finding("agents", Status.ERROR, "no Linux node of the cluster is Ready", "kubectl get nodes")
        return
    running = {pod["spec"].get("nodeName") for pod in _of(seen.pods, "agent") if _is_ready(pod)}
    missing = sorted(set(seen.ready_nodes) - running)
    if missing:
        yield Finding(
            "agents",
            Status.WARNING if running else Status.ERROR,
            f"no ready agent on {len(missing)} of {len(seen.ready_nodes)} ready nodes: {_first(missing)}",
            f"kubectl get pods -n {seen.namespace} -o wide, and describe what is not ready; mind taints",
        )
    else:
        yield Finding("agents", Status.OK, f"ready on all {len(seen.ready_nodes)} ready nodes")


def _replicas(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.pods, Denied):
        return
    for component, enough in (("extender", 2), ("etcd", 1)):
        pods = _of(seen.pods, component)
        ready = sum(map(_is_ready, pods))
        look = f"kubectl describe pods -n {seen.namespace} -l {COMPONENT}={component}"
        if not pods and component != "extender":
            yield Finding(component, Status.UNKNOWN, f"none runs in {seen.namespace}; it may run elsewhere")
        elif not pods:
            yield Finding(
                component,
                Status.ERROR,
                f"the namespace {seen.namespace} has no {component} pod",
                f"kubectl get pods -A -l {COMPONENT}={component} shows whether another has: --extender-namespace",
            )
        elif ready == 0:
            yield Finding(component, Status.ERROR, f"none of {len(pods)} is ready", look)
        elif ready < max(len(pods), enough):
            yield Finding(component, Status.WARNING, f"{ready} ready of {max(len(pods), enough)}", look)
        else:
            yield Finding(component, Status.OK, f"{ready} ready")


def _rights(seen: Seen) -> Iterator[Finding]:
    lacking = [right for right, allowed in seen.rights.items() if allowed is False]
    unknown = [(right, why) for right, why in seen.rights.items() if isinstance(why, Denied)]
    for right in lacking:
        yield Finding(
            "rights", Status.ERROR, f"{right}: refused", "apply the manifests of this version again, with their roles"
        )
    if unknown:
        right, why = unknown[0]
        yield Finding(
            "rights",
            Status.UNKNOWN,
            f"{right}: {why.reason}",
            "run it as somebody who may impersonate service accounts",
        )
    if seen.rights and not lacking and not unknown:
        yield Finding("rights", Status.OK, f"all {len(seen.rights)} that were asked for are there")


def _clocks(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.clocks, Denied):
        yield Finding(
            "clocks", Status.UNKNOWN, seen.clocks.reason, "ask for the right to list leases in kube-node-lease"
        )
        return
    off = [each for each in seen.clocks if abs(each.ahead_seconds) > CLOCK_WARNING_SECONDS]
    for each in off:
        far = abs(each.ahead_seconds) > CLOCK_ERROR_SECONDS
        side = "ahead of" if each.ahead_seconds > 0 else "behind"
        yield Finding(
            "clocks",
            Status.ERROR if far else Status.WARNING,
            f"{each.node} is {abs(each.ahead_seconds):.0f} s {side} the API server",
            "start NTP on the node (timedatectl set-ntp true)",
        )
    if not seen.clocks:
        yield Finding("clocks", Status.UNKNOWN, "no Lease in kube-node-lease shows a node's clock", "kubectl get nodes")
    elif not off:
        yield Finding(
            "clocks", Status.OK, f"{len(seen.clocks)} nodes within {CLOCK_WARNING_SECONDS:.0f} s of the API server"
        )


def _sysctl(seen: Seen) -> Iterator[Finding]:
    for node, value in sorted(seen.sysctl.items()):
        if isinstance(value, Denied):
            yield Finding("sysctl", Status.UNKNOWN, f"{node}: {value.reason}", "ask for the right to exec into agents")
            continue
        numbers = [int(number) for number in re.findall(r"\d+", value)]
        if len(numbers) != 2 or numbers[0] > numbers[1]:
            yield Finding(
                "sysctl",
                Status.WARNING,
                f"{node}: net.ipv4.ping_group_range is {value!r}: agents cannot use ICMP and probe by TCP",
                "on the node: echo 'net.ipv4.ping_group_range = 0 2147483647' > /etc/sysctl.d/60-leadsman.conf;"
                " sysctl --system",
            )
    if seen.sysctl and not any(isinstance(value, Denied) for value in seen.sysctl.values()):
        yield Finding("sysctl", Status.OK, f"net.ipv4.ping_group_range read on {len(seen.sysctl)} nodes")


def _extenders(seen: Seen) -> Iterator[Finding]:
    if isinstance(seen.extenders, Denied):
        yield Finding("extender", Status.ERROR, seen.extenders.reason, "see the checks above")
        return
    for view in seen.extenders:
        if isinstance(view.overview, Denied):
            yield Finding(
                "state",
                Status.ERROR,
                f"{view.pod}: {view.overview.reason}",
                "if the pod runs, ask for the right to forward its ports (create pods/portforward)",
            )
        else:
            yield from _certificate(view.pod, view.overview)
            yield from _state(view.pod, view.overview)
    decisions = [view.overview.decisions for view in seen.extenders if isinstance(view.overview, Overview)]
    if decisions:
        yield from _asked(sum(each.decided for each in decisions), sum(each.neutral for each in decisions))


def _certificate(pod: str, overview: Overview) -> Iterator[Finding]:
    days = next((each.days_left for each in overview.certificates if each.name == "server"), None)
    if days is None:
        return
    status = Status.OK
    if days < CERTIFICATE_WARNING_DAYS:
        status = Status.WARNING if days >= CERTIFICATE_ERROR_DAYS else Status.ERROR
    what = "leadsman certs renew, then leadsman certs secrets | kubectl apply -f -"
    text = f"{pod}: ends in {days:.0f} days" if days >= 0 else f"{pod}: ended {-days:.0f} days ago"
    yield Finding("certificate", status, text, "" if status is Status.OK else what)


def _state(pod: str, overview: Overview) -> Iterator[Finding]:
    fresh, total = overview.nodes.fresh, sum(structs.astuple(overview.nodes))
    if fresh < total or not total:
        yield Finding(
            "state",
            Status.ERROR if not fresh else Status.WARNING,
            f"{pod}: {fresh} of {total} nodes are fresh",
            "leadsman nodes shows which are not; look at the log of their agents and at etcd",
        )
    else:
        yield Finding("state", Status.OK, f"{pod}: all {total} nodes are fresh")
    for problem in overview.problems:
        yield Finding("state", Status.WARNING, f"{pod}: {problem.text}", problem.what_to_do)


def _asked(decided: int, neutral: int) -> Iterator[Finding]:
    if not decided:
        yield Finding(
            "scheduler",
            Status.ERROR,
            "kube-scheduler has not asked any replica since they started",
            "leadsman configure-scheduler adds the extender to its configuration; its log names a failed call",
        )
        return
    yield Finding("scheduler", Status.OK, f"kube-scheduler asked {decided} times since the replicas started")
    if neutral / decided > NEUTRAL_WARNING_RATIO:
        yield Finding(
            "answers",
            Status.WARNING,
            f"{neutral / decided:.0%} of the answers are neutral",
            "the extender's log says whether they were late or a plugin failed; give it more CPU, or mend the plugin",
        )


def _controllers(seen: Seen) -> Iterator[Finding]:
    """Nothing where none runs: many clusters have none."""
    look = f"kubectl logs -n {seen.namespace} -l {COMPONENT}=controller says why; so may kubectl get lease there"
    for each in seen.controllers:
        if isinstance(each.leads, Denied):
            yield Finding("controller", Status.WARNING, f"{each.pod} does not answer: {each.leads.reason}", look)
    leaders = [each.pod for each in seen.controllers if each.leads is True]
    followers = [each for each in seen.controllers if each.leads is False]
    if leaders:
        yield Finding("controller", Status.OK, f"{leaders[0]} leads")
    elif followers:
        text = f"none of the {len(followers)} that answer leads: nothing is planned or done"
        yield Finding("controller", Status.ERROR, text, look)


def _versions(seen: Seen, our_version: str) -> Iterator[Finding]:
    if isinstance(seen.pods, Denied):
        return
    images = {
        container["image"]
        for pod in seen.pods
        for container in pod["spec"]["containers"]
        if pod["metadata"].get("labels", {}).get(COMPONENT) in ("agent", "extender", "controller")
    }
    tags = {image.partition("@")[0].rpartition("/")[2].partition(":")[2] for image in images} - {""}
    if len(tags) > 1:
        yield Finding(
            "versions",
            Status.WARNING,
            f"components run {', '.join(sorted(tags))}",
            "finish the rollout",
        )
    elif tags and tags != {our_version}:
        yield Finding(
            "versions", Status.WARNING, f"the cluster runs {tags.pop()}, this program is {our_version}", "use the same"
        )
    elif tags:
        yield Finding("versions", Status.OK, f"{our_version} everywhere")


def _of(pods: Sequence[Mapping[str, Any]], component: str) -> list[Mapping[str, Any]]:
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get(COMPONENT) == component]


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def _first(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


_CHECKS: Sequence[Callable[[Seen], Iterator[Finding]]] = (
    _agents,
    _replicas,
    _rights,
    _clocks,
    _sysctl,
    _extenders,
    _controllers,
)
