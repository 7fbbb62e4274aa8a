"""`leadsman doctor`: looks at a cluster with Leadsman through kubectl, and says what is wrong and what to do.

Exit code: 0: nothing is wrong; 1: something is; warnings alone leave it 0.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from extender.api.overview import Overview
from leadsman.cli import doctor_checks, extender_client, kubectl, output
from leadsman.cli.doctor_checks import Denied, Finding, Seen, Status, pods_of
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.kubectl import Kubectl, is_ready
from leadsman.runtime.version import VERSION


def options(add: Options) -> None:
    kubectl.options(add)
    output.options(add, json="the findings", watch=False)


def main(args: argparse.Namespace) -> int:
    with output.progress("asks the cluster and its pods through kubectl"):
        seen = look(Kubectl.of(args), args.extender_namespace)
    findings = doctor_checks.diagnose(seen, VERSION)
    if args.output in ("json", "yaml"):
        output.write(output.document(findings, args.output))
    else:
        output.write(text(findings))
    return int(any(each.status is Status.ERROR for each in findings))


def text(findings: list[Finding]) -> str:
    """Writes a table, and below it what to do about each finding that is not ok."""
    rows = [["STATUS", "CHECK", "FINDING"], *([each.status, each.check, each.text] for each in findings)]
    advice = [f"{each.check}: {each.what_to_do}" for each in findings if each.what_to_do]
    return output.table(rows) + "".join(f"{line}\n" for line in ["", *advice] if advice)


T = TypeVar("T")

_READ_SYSCTL = ("python", "-c", "print(open('/proc/sys/net/ipv4/ping_group_range').read().strip())")
"""Python reads the sysctl, because it is the one program that the agent's image is certain to have."""

_LEASES = ("get", "leases", "-n", "kube-node-lease", "--show-managed-fields")

METRICS = {"controller": ("leadsman_controller_leader", 9003), "etcd": ("leadsman_etcd_member_differs", 9005)}
"""Maps each component to the metric that is read of each of its pods, and the port that shows it."""

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
    """Returns what the cluster says; where no API server answers, only that. namespace: Leadsman's."""
    version = _asked(lambda: str(kubectl.json("version")["serverVersion"]["gitVersion"]))
    if isinstance(version, Denied):
        return Seen(namespace, version, version, version, version, {}, {}, version)
    listed = _asked(lambda: kubectl.json("get", "pods", "-n", namespace)["items"])
    pods = [] if isinstance(listed, Denied) else listed
    sharing = [pod for pod in pods_of(pods, "agent") if pod["spec"].get("hostNetwork")]
    rights = {f"{account} may {verb} {what}": (account, verb, what) for account, verb, what in NEEDED_RIGHTS}
    leaders, differing = (
        {
            pod["metadata"]["name"]: _asked(partial(_metric, kubectl, pod, *METRICS[component]))
            for pod in pods_of(pods, component)
            if pod["status"].get("phase") == "Running"
        }
        for component in ("controller", "etcd")
    )
    return Seen(
        namespace,
        version,
        listed,
        _asked(lambda: ready_linux_nodes(kubectl.json("get", "nodes")["items"])),
        _asked(lambda: node_clocks(kubectl.json(*_LEASES)["items"])),
        # Elsewhere the manifest sets it for the pod.
        {pod["spec"].get("nodeName", ""): _asked(partial(_sysctl, kubectl, pod)) for pod in sharing},
        {
            text: _asked(partial(kubectl.may, f"{namespace}:{account}", verb, what))
            for text, (account, verb, what) in rights.items()
        },
        _asked(lambda: _overviews(kubectl, namespace)),
        leaders,
        differing,
    )


def _asked(question: Callable[[], T]) -> T | Denied:
    try:
        return question()
    except (CommandFailed, ValueError) as error:
        return Denied(str(error))


def ready_linux_nodes(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    linux = (n for n in nodes if n["metadata"].get("labels", {}).get("kubernetes.io/os", "linux") == "linux")
    return [node["metadata"]["name"] for node in linux if is_ready(node)]


def node_clocks(leases: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Maps each node to how many seconds its clock is ahead of the API server's.

    At one write the node's clock gives renewTime, and the API server's the time of its managed field.
    """
    found = {}
    for lease in leases:
        written = [
            each["time"]
            for each in lease["metadata"].get("managedFields", ())
            if "f:renewTime" in each.get("fieldsV1", {}).get("f:spec", {})
        ]
        renewed = lease.get("spec", {}).get("renewTime")
        if written and renewed:
            ahead = datetime.fromisoformat(renewed) - datetime.fromisoformat(max(written))
            found[lease["metadata"]["name"]] = ahead.total_seconds()
    return found


def _sysctl(kubectl: Kubectl, pod: Mapping[str, Any]) -> str:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    return kubectl.text("exec", "-n", namespace, name, "--", *_READ_SYSCTL)


def _overviews(kubectl: Kubectl, namespace: str) -> dict[str, Overview | Denied]:
    def overview(pod: Mapping[str, Any]) -> Overview:
        with extender_client.forwarded(kubectl, pod, extender_client.API_PORT, _HINT) as api:
            return api.get("/overview", Overview)

    pods = extender_client.extender_pods(kubectl, namespace)
    return {pod["metadata"]["name"]: _asked(partial(overview, pod)) for pod in pods}


def _metric(kubectl: Kubectl, pod: Mapping[str, Any], metric: str, port: int) -> float | None:
    with extender_client.forwarded(kubectl, pod, port, _HINT) as api:
        text = api.read("/metrics").decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return next((sample.value for sample in samples if sample.name == metric), None)
