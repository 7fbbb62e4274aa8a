"""Asks a cluster, through kubectl, what the checks read. What it refuses is a Denied; the rest is read all the same."""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from leadsman.cli import extender_replicas, state_page
from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.diagnosis.model import AnswerCounts, ClockReading, ControllerView, Denied, ExtenderView, Seen
from leadsman.cli.extender_client import ExtenderClient
from leadsman.cli.kubectl import Kubectl

T = TypeVar("T")

_READ_SYSCTL = ("python", "-c", "print(open('/proc/sys/net/ipv4/ping_group_range').read().strip())")
"""Of the agent's image Python is certain."""

_LEASES = ("get", "leases", "-n", "kube-node-lease", "--show-managed-fields")

REQUESTS, DECISIONS = "leadsman_extender_request_duration_seconds", "leadsman_extender_decisions_total"
LEADER = "leadsman_controller_leader"

_HINT = "Look at its pods with kubectl."

NEEDED_RIGHTS: Sequence[tuple[str, str, str]] = (
    ("leadsman-agent", "list", "pods"),
    ("leadsman-agent", "watch", "pods"),
    ("leadsman-agent", "list", "events"),
    ("leadsman-extender", "list", "pods"),
    ("leadsman-extender", "watch", "pods"),
)
"""Service account, verb, resource: what daemonset/base grants over all namespaces (a test compares them)."""


def look(kubectl: Kubectl, namespace: str, certs: Path | None) -> Seen:
    """namespace: Leadsman's. certs: the operator's folder of certificates."""
    pods = _asked(lambda: kubectl.json("get", "pods", "-n", namespace)["items"])
    return Seen(
        time.time(),
        namespace,
        _asked(lambda: str(kubectl.json("version")["serverVersion"]["gitVersion"])),
        pods,
        _asked(lambda: ready_linux_nodes(kubectl.json("get", "nodes")["items"])),
        _asked(lambda: node_clocks(kubectl.json(*_LEASES)["items"])),
        {} if isinstance(pods, Denied) else _sysctls(kubectl, pods),
        {
            f"{account} may {verb} {resource}": _asked(partial(kubectl.may, f"{namespace}:{account}", verb, resource))
            for account, verb, resource in NEEDED_RIGHTS
        },
        _asked(lambda: _extender_views(kubectl, namespace, certs)),
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


def _extender_views(kubectl: Kubectl, namespace: str, certs: Path | None) -> list[ExtenderView]:
    pods = extender_replicas.extender_pods(kubectl, namespace)
    plain = all(map(extender_replicas.is_plain, pods))
    tls = None if plain else _asked(lambda: extender_replicas.tls_of_secret(kubectl, namespace, certs))
    return [_extender_view(kubectl, pod, tls) for pod in pods]


def _extender_view(
    kubectl: Kubectl, pod: Mapping[str, Any], tls: "extender_replicas.NamedTls | Denied | None"
) -> ExtenderView:
    return ExtenderView(
        pod["metadata"]["name"],
        tls if isinstance(tls, Denied) else _asked(lambda: _state(kubectl, pod, tls)),
        _certificate_ends(kubectl, pod, tls) if isinstance(tls, ssl.SSLContext) else None,
        _asked(lambda: _answer_counts(kubectl, pod)),
    )


def _state(kubectl: Kubectl, pod: Mapping[str, Any], tls: ssl.SSLContext | None) -> state_page.StatePage:
    with extender_replicas.forwarded(
        kubectl, pod, "https", None if extender_replicas.is_plain(pod) else tls
    ) as replica:
        return state_page.read(ExtenderClient([replica], _HINT).json("/state"))


def _answer_counts(kubectl: Kubectl, pod: Mapping[str, Any]) -> AnswerCounts:
    with extender_replicas.forwarded(kubectl, pod, "ops") as replica:
        text = ExtenderClient([replica], _HINT).text("/metrics")
    calls = decisions = neutral = 0.0
    for sample in (sample for family in text_string_to_metric_families(text) for sample in family.samples):
        if sample.name == f"{REQUESTS}_count" and sample.labels["verb"] in ("filter", "prioritize"):
            calls += sample.value
        if sample.name == DECISIONS:
            decisions += sample.value
            neutral += sample.value if sample.labels["result"] == "neutral" else 0.0
    return AnswerCounts(calls, decisions, neutral)


def _running_controllers(pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        pod
        for pod in pods
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "controller"
        and pod["status"].get("phase") == "Running"
    ]


def _controller_view(kubectl: Kubectl, pod: Mapping[str, Any]) -> ControllerView:
    def leads() -> bool | None:
        with extender_replicas.forwarded(kubectl, pod, "metrics") as replica:
            text = ExtenderClient([replica], _HINT).text("/metrics")
        families = text_string_to_metric_families(text)
        return next((sample.value == 1 for each in families for sample in each.samples if sample.name == LEADER), None)

    return ControllerView(pod["metadata"]["name"], _asked(leads))


def _certificate_ends(kubectl: Kubectl, pod: Mapping[str, Any], tls: ssl.SSLContext) -> float | None:
    """Unix seconds; None: nothing can be shown, as the state's finding says."""
    with contextlib.suppress(OSError, CommandFailed), contextlib.ExitStack() as stack:
        replica = stack.enter_context(extender_replicas.forwarded(kubectl, pod, "https", tls))
        port = urlsplit(replica.url).port
        plain = stack.enter_context(socket.create_connection(("127.0.0.1", port or 0), timeout=10))
        shown = stack.enter_context(tls.wrap_socket(plain)).getpeercert()
        return ssl.cert_time_to_seconds(str((shown or {})["notAfter"]))
    return None
