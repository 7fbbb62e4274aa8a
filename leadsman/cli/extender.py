"""`leadsman extender`: answer kube-scheduler."""

import argparse

from extender.record_queues import REQUESTS_PER_SECOND
from extender.run import ExtenderSettings, run
from leadsman.cli.extender_client import API_PORT
from leadsman.cli.flags import decision_flags, process_flags
from leadsman.cli.flags.options import Options, not_given
from leadsman.cli.flags.values import (
    existing_file,
    existing_folder,
    listen_address,
    loopback_address,
    name_list,
    namespace_name,
    non_negative_number,
    optional_object_name,
    optional_url,
    split_host_port,
)
from leadsman.kube.access import ApiAccess, NotInCluster
from leadsman.kube.objects import ObjectReference
from leadsman.runtime.process import run_until_stopped
from leadsman.runtime.server_tls import TlsFiles
from leadsman.sources.recording.segments import DEFAULT_RING_BYTES, SMALLEST_RING_BYTES

DRAIN_SECONDS = 10.0
"""kube-proxy follows a pod's end within about a second on a small cluster and within several on a large one, whose
iptables take long to write. The manifest's terminationGracePeriodSeconds has room for it."""


def options(add: Options) -> None:
    """Adds the extender's flags; the groups that most operators set come first."""
    process_flags.etcd_options(add)
    tls_options(add.group("mutual TLS of --listen; `leadsman certs` makes the files"))
    deciding_options(add.group("deciding"))
    decision_flags.telemetry_options(add.group("telemetry policies (docs/telemetry-policies.md)"))
    self_healing_options(add.group("self-healing (docs/self-healing.md)"))
    decision_flags.delay_options(add.group("delays besides the agents' own, which count first (docs/delays.md)"))
    process_flags.api_server_options(add)
    serving_options(add.group("serving"))
    recording_options(add.group("recording for `leadsman replay` (docs/replay.md)"))
    add.group("binding").switch("bind", "offer the bind verb")
    own_pod_options(add.group("the extender's own pod, which gets Events about plugins (docs/plugins.md)"))
    process_flags.log_options(add)


def serving_options(add: Options) -> None:
    add.flag(
        "listen",
        "address that kube-scheduler calls",
        "0.0.0.0:9001",
        listen_address,
        variable="LEADSMAN_EXTENDER_LISTEN",
    )
    add.flag("ops-listen", "address of /metrics, /healthz and /readyz", "0.0.0.0:9002", listen_address)
    add.flag(
        "api-listen",
        "loopback address of the page and the API, which ask for no token (default {default}; docs/page.md)",
        f"127.0.0.1:{API_PORT}",
        loopback_address,
    )
    add.flag(
        "grafana-url",
        "where the page links to for a pair's past, with {a} and {b} for the nodes' names (default: nowhere)",
        "",
        optional_url,
    )
    add.flag(
        "drain-seconds",
        "after SIGTERM: unready at once, and still answering for so long (default {default}; 0: ends at once)",
        DRAIN_SECONDS,
        non_negative_number,
    )
    add.switch("names-only", "refuse bodies over 4 MiB, for a scheduler with nodeCacheCapable: true")


def deciding_options(add: Options) -> None:
    decision_flags.decision_options(add)
    add.flag(
        "probe-requests-per-second",
        "largest number of unmeasured pairs a second that agents are asked to measure",
        REQUESTS_PER_SECOND,
    )


def self_healing_options(add: Options) -> None:
    add.switch("self-healing", "follow what the controller publishes of dead nodes, held room and placeholders")
    published = "namespace that the controller publishes in"
    add.flag("self-healing-namespace", published, "leadsman", namespace_name, also=["POD_NAMESPACE"])


def own_pod_options(add: Options) -> None:
    add.flag("pod-name", "its name (default: no Events are written)", "", optional_object_name, also=["POD_NAME"])
    add.flag("pod-namespace", "its namespace", "leadsman", namespace_name, also=["POD_NAMESPACE"])
    add.flag("pod-uid", "its UID, by which `kubectl describe` finds them", "", also=["POD_UID"])


def settings(args: argparse.Namespace) -> ExtenderSettings:
    """Returns the extender's settings. ValueError, with what to do, when the flags do not fit together."""
    api = _api(args)
    if args.self_healing and api is None:
        raise ValueError("--self-healing needs the API server; name it with --kube-api or --kubeconfig")
    if args.devices and api is None:
        raise ValueError("--devices needs the API server; name it with --kube-api or --kubeconfig")
    return ExtenderSettings(
        etcd=process_flags.etcd_access(args),
        listen=split_host_port(args.listen),
        ops_listen=split_host_port(args.ops_listen),
        policy=args.policy,
        names_only=args.names_only,
        api=api,
        bind=args.bind,
        tls=tls_files(args),
        probe_requests_per_second=args.probe_requests_per_second,
        delays=decision_flags.delay_settings(args),
        telemetry=decision_flags.telemetry_settings(args, api),
        self_healing_namespace=args.self_healing_namespace if args.self_healing else "",
        devices=args.devices,
        drain_seconds=args.drain_seconds,
        record=args.record_dir,
        record_bytes=args.record_bytes,
        api_listen=split_host_port(args.api_listen),
        grafana_url=args.grafana_url,
        own_pod=ObjectReference("Pod", args.pod_namespace, args.pod_name, args.pod_uid) if args.pod_name else None,
    )


def _api(args: argparse.Namespace) -> ApiAccess | None:
    """None when no API server is configured: workload locations are then unknown."""
    try:
        return process_flags.api_access(args)
    except NotInCluster as error:
        if args.bind:
            raise ValueError(f"--bind needs an API server: {error}") from error
        return None


TLS_FLAGS = ("--tls-cert", "--tls-key", "--tls-client-ca")


def tls_options(add: Options) -> None:
    add.flag("tls-cert", "the extender's certificate", None, existing_file)
    add.flag("tls-key", "the certificate's private key", None, existing_file)
    add.flag("tls-client-ca", "CA that clients' certificates must chain to", None, existing_file)
    add.flag(
        "tls-client-name",
        "common or alternative names of the clients that are answered, exact",
        "kube-scheduler",
        name_list,
    )
    add.switch("plain-http", "serve without TLS: any client that reaches the port is answered")


def tls_files(args: argparse.Namespace) -> TlsFiles | None:
    """Returns the listener's files; None: plain HTTP. Raises ValueError when neither that nor all files are given, or
    both."""
    missing = not_given(args, *TLS_FLAGS)
    if args.plain_http and len(missing) < len(TLS_FLAGS):
        raise ValueError("--plain-http and certificates exclude each other; leave one out")
    if args.plain_http:
        return None
    if missing:
        raise ValueError(f"{', '.join(missing)} not given; make them with `leadsman certs`, or pass --plain-http")
    return TlsFiles(args.tls_cert, args.tls_key, args.tls_client_ca, frozenset(args.tls_client_name))


def main(args: argparse.Namespace) -> int:
    extender_settings = settings(args)
    return run_until_stopped(lambda stop: run(extender_settings, stop))


BYTES_BY_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def recording_options(add: Options) -> None:
    add.flag(
        "record-dir",
        "folder that decided requests and their inputs are recorded in (default: nothing is recorded)",
        None,
        existing_folder,
    )
    add.flag(
        "record-bytes",
        "largest size of the recording, K, M or G; the oldest requests make room",
        f"{DEFAULT_RING_BYTES >> 20}M",
        ring_bytes,
        metavar="BYTES",
    )


def ring_bytes(text: str) -> int:
    """Parses a size such as 268435456, 256M or 1G."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    size = int(number) * BYTES_BY_UNIT[unit] if number.isdecimal() and unit in BYTES_BY_UNIT else 0
    if size < SMALLEST_RING_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r}: want bytes, or a number with K, M or G; at least 1M")
    return size
