"""`leadsman agent`: measure on this node."""

import argparse
import gc
import os
import socket
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from uuid import uuid4

from agent.node_ownership import NodeAlreadyOwned
from agent.peering.peer_refresh import PROBE_BUDGET
from agent.pods.incident_ledger import LedgerLimits
from agent.pods.monitor import PodSettings
from agent.rtt.icmp import IcmpRefused, parse_literal
from agent.rtt.peer import ProbeSettings
from agent.run import AgentSettings, run
from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import Fields, Options, from_flags
from leadsman.cli.flags.values import (
    existing_folder,
    listen_address,
    name_list,
    object_name,
    one_of,
    peer_count,
    positive_int,
)
from leadsman.kube.access import NotInCluster
from leadsman.plugin import METRICS_GROUP, REWARDS_GROUP
from leadsman.plugin_loading import installed_plugins
from leadsman.runtime.process import run_until_stopped
from leadsman.state.report_timing import ReportTiming

PROBING: Fields = {
    "mode": ("probe", "probe method: auto, icmp or tcp (default {default}: ICMP, and TCP where ICMP is blocked)"),
    "interval_seconds": ("probe-interval-seconds", "time between probes to one peer"),
    "timeout_seconds": (
        "probe-timeout-seconds",
        "time after which a reply is a loss, at most 10 (default {default}); satellite links need more, and a node that"
        " dies is noticed so much later",
    ),
    "window_seconds": ("window-seconds", "time for which a probe counts"),
}
LEDGER: Fields = {
    "stuck_seconds": ("stuck-seconds", "time after which a pod that is bound and does not run counts as stuck"),
    "half_life_seconds": ("half-life-seconds", "time in which evidence about a pod type loses half its weight"),
}


def options(add: Options) -> None:
    node = add.group("node")
    node.flag(
        "node-name",
        "the node's name in Kubernetes (default: the host's)",
        socket.gethostname().lower(),
        object_name,
        also=["NODE_NAME"],
    )
    node.flag("address", "address at which peers probe this node", None, own_address, also=["POD_IP", "HOST_IP"])
    node.flag("owner", "owner of this node's records in etcd: the pod's UID", also=["POD_UID"])
    node.flag(
        "zone", "the node's topology.kubernetes.io/zone (default: as its Node object says)", "", also=["NODE_ZONE"]
    )
    node.flag("rack", "the node's rack, or any group below a zone", "", also=["NODE_RACK"])
    process_flags.etcd_options(add)
    probing_options(add.group("probing"))
    report = add.group("reporting")
    report.flag("push-interval-seconds", "time between reports", 5.0)
    report.flag("call-timeout-seconds", "time limit of one call to etcd", 3.0)
    report.flag(
        "listen",
        "address of /metrics, /healthz and /readyz",
        "0.0.0.0:9102",
        listen_address,
        variable="LEADSMAN_AGENT_LISTEN",
    )
    roots = add.group("hardware")
    roots.flag("proc-root", "the host's /proc", "/proc", existing_folder)
    roots.flag("sys-root", "the host's /sys", "/sys", existing_folder)
    roots.flag("rootfs", "where the host's / is mounted", "/", existing_folder)
    roots.flag(
        "hardware-metrics",
        "show the hardware on /metrics: on or off (default {default}); off beside node_exporter, decisions have it"
        " either way",
        "on",
        one_of("on", "off"),
        metavar="MODE",
    )
    pod_options(add.group("pods"))
    add.group("plugins (docs/plugins.md)").flag(
        "plugins",
        "metrics and rewards of installed packages to load, by the names of their entry points (default: none)",
        (),
        name_list,
    )
    process_flags.api_server_options(add)
    process_flags.log_options(add)


def probing_options(add: Options) -> None:
    add.flag("max-peers", "largest number of peers to probe, at most 146", 16, peer_count, metavar="K")
    add.flag("probe-budget", "probes a second of all agents together; above it, each probes less often", PROBE_BUDGET)
    add.fields(ProbeSettings(), PROBING)
    add.flag(
        "tcp-port", "peers' port for TCP probes (default: the port of --listen)", None, positive_int, metavar="PORT"
    )


def pod_options(add: Options) -> None:
    add.flag(
        "pods",
        "follow this node's pods: auto, on or off (default {default}: when an API server is configured)",
        "auto",
        one_of("auto", "on", "off"),
        metavar="MODE",
    )
    add.fields(LedgerLimits(), LEDGER)
    add.flag("health-summary-seconds", "time between two health summaries of the pods", 15.0)
    add.flag("observe-seconds", "time between two reads of pods' own metrics", 30.0)


def settings(args: argparse.Namespace) -> AgentSettings:
    """Returns what the agent runs with. ValueError, with what to do, when the flags do not fit together."""
    if not args.address:
        raise ValueError("--address is missing: the address at which other nodes reach this one [$POD_IP]")
    metrics, rewards = (_named_in(group, args.plugins) for group in (METRICS_GROUP, REWARDS_GROUP))
    if missing := set(args.plugins) - {*metrics, *rewards}:
        raise ValueError(
            f"--plugins {min(missing)}: no installed package has a metric or reward of that name;"
            " `leadsman plugins list` shows what is installed"
        )
    return AgentSettings(
        node=args.node_name,
        address=args.address,
        owner=args.owner or f"{args.node_name}-{uuid4()}",
        etcd=process_flags.etcd_access(args, args.call_timeout_seconds),
        zone=args.zone,
        rack=args.rack,
        max_peers=args.max_peers,
        probe_budget=args.probe_budget,
        probing=probe_settings(args),
        timing=ReportTiming(args.push_interval_seconds, args.call_timeout_seconds),
        listen=args.listen,
        proc_root=args.proc_root,
        sys_root=args.sys_root,
        rootfs=args.rootfs,
        own_network=has_own_network(os.environ),
        pods=pod_settings(args, rewards),
        hardware_metrics=args.hardware_metrics == "on",
        metric_plugins=metrics,
    )


def own_address(text: str) -> str:
    """Parses an address of one host, at which others can probe it."""
    literal = parse_literal(text)
    ip = ip_address(literal.address[0].partition("%")[0]) if literal else None
    if ip is None or ip.is_unspecified or ip.is_multicast:
        raise argparse.ArgumentTypeError(f"{text!r}: want an IP address of this node")
    return text


def has_own_network(environ: Mapping[str, str]) -> bool:
    """Tells whether the agent's pod has an address of its own. With hostNetwork the pod's is the node's."""
    pod, host = environ.get("POD_IP"), environ.get("HOST_IP")
    return bool(pod and host and pod != host)


def _named_in(group: str, names: Collection[str]) -> tuple[str, ...]:
    """Returns those of the names that are in the group."""
    installed = {point.name for point in installed_plugins(group)} if names else set()
    return tuple(name for name in names if name in installed)


def pod_settings(args: argparse.Namespace, reward_plugins: tuple[str, ...] = ()) -> PodSettings | None:
    """Returns how pods are followed; None: they are not. Raises ValueError for --pods on without an API server."""
    if args.pods == "off":
        return None
    try:
        api = process_flags.api_access(args)
    except NotInCluster as error:
        if args.pods == "auto":
            return None
        raise ValueError(f"--pods on: {error}") from error
    limits = from_flags(args, LedgerLimits, LEDGER)
    return PodSettings(api, limits, args.health_summary_seconds, args.observe_seconds, reward_plugins)


def probe_settings(args: argparse.Namespace) -> ProbeSettings:
    own_port = int(args.listen.rpartition(":")[2])
    return from_flags(args, ProbeSettings, PROBING, tcp_port=args.tcp_port or own_port)


def main(args: argparse.Namespace) -> int:
    agent_settings = settings(args)
    collect_garbage_often()
    return run_until_stopped(lambda stop: run(agent_settings, stop), expected=(NodeAlreadyOwned, IcmpRefused))


def collect_garbage_often() -> None:
    """Collects garbage often: only a full collection gives back the tuples, up to 2,000 of each length, that Python
    keeps for the next ones. By its own thresholds an agent has none for days: RSS grew by a MB an hour. Looking through
    all is cheap: 2,500 objects, without what was imported, which took 5 % of an agent's CPU."""
    gc.freeze()
    gc.set_threshold(100, 1, 1)
