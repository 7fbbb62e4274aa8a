"""`leadsman doctor`: looks at a cluster with Leadsman through kubectl, and says what is wrong and what to do.

Exit code: 0: nothing is wrong; 1: something is; warnings alone leave it 0.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from extender.api.overview import Overview
from leadsman.cli import doctor_checks, extender_client, kubectl, output
from leadsman.cli.doctor_checks import ClockReading, ControllerView, Denied, ExtenderView, Finding, Seen, Status
from leadsman.cli.extender_client import ExtenderApi
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.kubectl import Kubectl
from leadsman.runtime.version import VERSION


def options(add: Options) -> None:
    kubectl.options(add)
    output.options(add, json="the findings", watch=False)


def main(args: argparse.Namespace) -> int:
    seen = look(Kubectl.of(args), args.extender_namespace)
    findings = doctor_checks.diagnose(seen, VERSION)
    if args.output in ("json", "yaml"):
        output.write(output.document(findings, args.output))
    else:
        output.write(text(findings))
    return int(any(each.status is Status.ERROR for each in findings))


def text(findings: list[Finding]) -> str:
    """A table, and below it what to do about each finding that is not ok."""
    rows = [[output.STATUS, "CHECK", "FINDING"], *([each.status, each.check, each.text] for each in findings)]
    advice = [f"{each.check}: {each.what_to_do}" for each in findings if each.what_to_do]
    return output.table(rows) + "".join(f"{line}\n" for line in ["", *advice] if advice)


T = TypeVar("T")

_READ_SYSCTL = ("python", "-c", "print(open('/proc/sys/net/ipv4/ping_group_range').read().strip())")
"""Of the agent's image Python is certain."""

_LEASES = ("get", "leases", "-n", "kube-node-lease", "--show-managed-fields")

LEADER, CONTROLLER_PORT = "leadsman_controller_leader", 9003

_HINT = "Look at its pods with kubectl."

NEEDED_RIGHTS: Sequence[tuple[str, str, str]] = (
    ("leadsman-agent", "list", "pods"),
    ("leadsman-agent", "watch", "pods"),
    ("leadsman-agent", "list", "events"),
    ("leadsman-extender", "list", "pods"),
    ("leadsman-extender", "watch", "pods"),
)
"""Service account, verb, resource: what daemonset/base grants over all namespaces (a test compares them)."""


def look(kubectl: Kubectl, namespace: str) -> Seen:
    """Returns what the cluster says; where no API server answers, that alone. namespace: Leadsman's."""
    version = _asked(lambda: str(kubectl.json("version")["serverVersion"]["gitVersion"]))
    if isinstance(version, Denied):
        return Seen(time.time(), namespace, version, version, version, version, {}, {}, version)
    pods = _asked(lambda: kubectl.json("get", "pods", "-n", namespace)["items"])
    return Seen(
        time.time(),
        namespace,
        version,
        pods,
        _asked(lambda: ready_linux_nodes(kubectl.json("get", "nodes")["items"])),
        _asked(lambda: node_clocks(kubectl.json(*_LEASES)["items"])),
        {} if isinstance(pods, Denied) else _sysctls(kubectl, pods),
        {
            f"{account} may {verb} {resource}": _asked(partial(kubectl.may, f"{namespace}:{account}", verb, resource))
            for account, verb, resource in NEEDED_RIGHTS
        },
        _asked(lambda: _extender_views(kubectl, namespace)),
        [] if isinstance(pods, Denied) else [_controller_view(kubectl, pod) for pod in _running_controllers(pods)],
    )


def _asked(question: Callable[[], T]) -> T | Denied:
    try:
        return question()
    except (CommandFailed, ValueError) as error:
        return Denied(str(error))


def ready_linux_nodes(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in nodes
        if node["metadata"].get("labels", {}).get("kubernetes.io/os", "linux") == "linux"
        and any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
    ]


def node_clocks(leases: Sequence[Mapping[str, Any]]) -> list[ClockReading]:
    """At one write the node's clock gives renewTime, and the API server's the time of its managed field."""
    found = []
    for lease in leases:
        written = [
            each["time"]
            for each in lease["metadata"].get("managedFields", ())
            if "f:renewTime" in each.get("fieldsV1", {}).get("f:spec", {})
        ]
        renewed = lease.get("spec", {}).get("renewTime")
        if written and renewed:
            ahead = datetime.fromisoformat(renewed) - datetime.fromisoformat(max(written))
            found.append(ClockReading(lease["metadata"]["name"], ahead.total_seconds()))
    return found


def _sysctls(kubectl: Kubectl, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, str | Denied]:
    """Of the nodes whose network agents share. Elsewhere the manifest sets it for the pod."""
    sharing = [
        pod
        for pod in pods
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "agent"
        and pod["spec"].get("hostNetwork")
    ]
    return {
        pod["spec"].get("nodeName", ""): _asked(
            partial(
                kubectl.text, "exec", "-n", pod["metadata"]["namespace"], pod["metadata"]["name"], "--", *_READ_SYSCTL
            )
        )
        for pod in sharing
    }


def _extender_views(kubectl: Kubectl, namespace: str) -> list[ExtenderView]:
    return [
        ExtenderView(pod["metadata"]["name"], _asked(partial(_overview, kubectl, pod)))
        for pod in extender_client.extender_pods(kubectl, namespace)
    ]


def _overview(kubectl: Kubectl, pod: Mapping[str, Any]) -> Overview:
    with extender_client.forwarded(kubectl, pod, extender_client.API_PORT) as replica:
        return ExtenderApi(replica, _HINT).get("/overview", Overview)


def _running_controllers(pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        pod
        for pod in pods
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "controller"
        and pod["status"].get("phase") == "Running"
    ]


def _controller_view(kubectl: Kubectl, pod: Mapping[str, Any]) -> ControllerView:
    def leads() -> bool | None:
        with extender_client.forwarded(kubectl, pod, CONTROLLER_PORT) as replica:
            text = ExtenderApi(replica, _HINT).read("/metrics").decode()
        families = text_string_to_metric_families(text)
        return next((sample.value == 1 for each in families for sample in each.samples if sample.name == LEADER), None)

    return ControllerView(pod["metadata"]["name"], _asked(leads))
