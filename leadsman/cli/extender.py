"""`leadsman extender`: answer kube-scheduler."""

import argparse
import gc
from pathlib import Path

from extender.api.access import LOOPBACK_HOSTS
from extender.api.server import PageService, PageSettings
from extender.peers.replicas import ReplicaSettings
from extender.probe_requests import REQUESTS_PER_SECOND
from extender.run import ExtenderSettings, run
from leadsman.cli import delay_flags, telemetry_flags
from leadsman.cli.options import (
    DEVICES_HELP,
    POLICY_HELP,
    Options,
    api_access,
    client_names,
    etcd_access,
    existing_file,
    existing_folder,
    listen_address,
    namespace_name,
    non_negative_number,
    optional_object_name,
    optional_url,
    positive_int,
    split_host_port,
)
from leadsman.kube.access import ApiAccess, NotInCluster, access_from_url
from leadsman.kube.objects import ObjectReference
from leadsman.runtime.mutual_tls import TlsFiles
from leadsman.runtime.process import run_until_stopped
from leadsman.sources.recording.segments import DEFAULT_RING_BYTES, SMALLEST_RING_BYTES

DRAIN_SECONDS = 10.0
"""kube-proxy follows a pod's end within about a second on a small cluster and within several on a large one, whose
iptables take long to write. The manifest's terminationGracePeriodSeconds has room for it."""


def options(add: Options) -> None:
    serving = add.group("serving")
    serving.flag(
        "listen",
        "address that kube-scheduler calls (default 0.0.0.0:9001)",
        "0.0.0.0:9001",
        listen_address,
        variable="LEADSMAN_EXTENDER_LISTEN",
        metavar="HOST:PORT",
    )
    serving.flag(
        "ops-listen",
        "address of /metrics, /healthz, /readyz and /config (default 0.0.0.0:9002)",
        "0.0.0.0:9002",
        listen_address,
        metavar="HOST:PORT",
    )
    serving.flag(
        "page-listen",
        "loopback address of the page and the API for people, in plain HTTP, for `leadsman page` (docs/api.md; default:"
        " none)",
        None,
        listen_address,
        metavar="HOST:PORT",
    )
    serving.flag(
        "page-service-listen",
        "address of the same for the cluster: TLS, and a token that the API server knows (default: none)",
        None,
        listen_address,
        metavar="HOST:PORT",
    )
    serving.flag(
        "page-hosts",
        "host names besides 127.0.0.1 and localhost that --page-service-listen is asked for by"
        " (default leadsman-page.leadsman.svc,leadsman-page)",
        "leadsman-page.leadsman.svc,leadsman-page",
        client_names,
        metavar="NAME[,NAME]",
    )
    serving.flag(
        "page-tls",
        "folder with tls.crt and tls.key of --page-service-listen (default: the certificate of --tls-cert)",
        None,
        existing_folder,
        metavar="DIR",
    )
    serving.flag(
        "prometheus-url",
        "Prometheus that scrapes the agents, which the page asks for histories (default: none; the page then has what"
        " this process remembers); with --prometheus-ca and --prometheus-token-file",
        "",
        optional_url,
        metavar="URL",
    )
    serving.flag(
        "drain-seconds",
        f"after SIGTERM: unready at once, and still answering for so long (default {DRAIN_SECONDS:g}; 0: ends at once)",
        DRAIN_SECONDS,
        non_negative_number,
        metavar="SECONDS",
    )
    serving.switch("names-only", "refuse bodies over 4 MiB, for a scheduler with nodeCacheCapable: true")
    tls = add.group("mutual TLS of --listen; `leadsman certs` makes the files")
    tls.flag("tls-cert", "the extender's certificate", None, existing_file, metavar="FILE")
    tls.flag("tls-key", "the certificate's private key", None, existing_file, metavar="FILE")
    tls.flag("tls-client-ca", "CA that clients' certificates must chain to", None, existing_file, metavar="FILE")
    tls.flag(
        "tls-client-name",
        "common or alternative names of the clients that are answered, exact (default kube-scheduler)",
        "kube-scheduler",
        client_names,
        metavar="NAME[,NAME]",
    )
    tls.switch("plain-http", "serve without TLS: any client that reaches the port is answered")
    replicas = add.group("the other extenders, whose decisions are shown too (docs/api.md): the first three or none")
    replicas.flag(
        "replicas",
        "names that lead to every extender, as that of a headless Service; their certificates have these names",
        None,
        host_ports,
        metavar="HOST:PORT[,HOST:PORT]",
    )
    replicas.flag("replica-listen", "address that the others ask", None, listen_address, metavar="HOST:PORT")
    replicas.flag(
        "replica-tls",
        "folder with tls.crt, tls.key and ca.crt, of a certificate that replicas show each other",
        None,
        existing_folder,
        metavar="DIR",
    )
    replicas.flag(
        "controllers",
        "names that lead to every controller, whose plan the page shows; they show the certificate of --replica-tls",
        (),
        host_ports,
        metavar="HOST:PORT[,HOST:PORT]",
    )
    deciding = add.group("deciding")
    deciding.flag("policy", POLICY_HELP, None, existing_file, metavar="FILE")
    deciding.flag(
        "probe-requests-per-second",
        f"largest number of unmeasured pairs a second that agents are asked to measure (default {REQUESTS_PER_SECOND})",
        REQUESTS_PER_SECOND,
        positive_int,
        metavar="N",
    )
    delay_flags.options(add.group("delays besides the agents' own, which count first (docs/delays.md)"))
    telemetry_flags.options(add.group("telemetry policies (docs/telemetry-policies.md)"))
    healing = add.group("self-healing (docs/self-healing.md)")
    healing.switch("self-healing", "follow what the controller publishes of dead nodes, held room and placeholders")
    healing.flag(
        "self-healing-namespace",
        "namespace that the controller publishes in (default leadsman)",
        "leadsman",
        namespace_name,
        metavar="NAMESPACE",
    )
    deciding.switch("devices", DEVICES_HELP)
    deciding.flag(
        "shadow-policy",
        "a second policy file, judged beside the live one in a process of its own; page /shadow (docs/replay.md)",
        None,
        existing_file,
        metavar="FILE",
    )
    recording = add.group("recording for `leadsman replay` (docs/replay.md)")
    recording.flag(
        "record-dir",
        "folder that decided requests and their inputs are recorded in (default: nothing is recorded)",
        None,
        existing_folder,
        metavar="DIR",
    )
    recording.flag(
        "record-bytes",
        "largest size of the recording, K, M or G; the oldest requests make room (default 256M)",
        DEFAULT_RING_BYTES,
        ring_bytes,
        metavar="BYTES",
    )
    binding = add.group("binding")
    binding.switch("bind", "offer the bind verb")
    pod = add.group("the extender's own pod, which gets Events about plugins (docs/plugins.md)")
    pod.flag("pod-name", "its name (default: no Events are written)", "", optional_object_name, also=["POD_NAME"])
    pod.flag("pod-namespace", "its namespace (default leadsman)", "leadsman", namespace_name, also=["POD_NAMESPACE"])
    pod.flag("pod-uid", "its UID, by which `kubectl describe` finds them", "", also=["POD_UID"])
    add.api_server()
    add.etcd()
    add.log_level()


def settings(args: argparse.Namespace) -> ExtenderSettings:
    """What the extender runs with. ValueError, with what to do, when the flags do not fit together."""
    api = _api(args)
    if args.self_healing and api is None:
        raise ValueError("--self-healing needs the API server; name it with --kube-api or --kubeconfig")
    if args.devices and api is None:
        raise ValueError("--devices needs the API server; name it with --kube-api or --kubeconfig")
    return ExtenderSettings(
        etcd=etcd_access(args),
        listen=split_host_port(args.listen),
        ops_listen=split_host_port(args.ops_listen),
        policy=args.policy,
        names_only=args.names_only,
        api=api,
        bind=args.bind,
        tls=_tls(args),
        probe_requests_per_second=args.probe_requests_per_second,
        delays=delay_flags.settings(args),
        telemetry=telemetry_flags.settings(args, api),
        self_healing_namespace=args.self_healing_namespace if args.self_healing else "",
        devices=args.devices,
        drain_seconds=args.drain_seconds,
        record=args.record_dir,
        record_bytes=args.record_bytes,
        shadow_policy=args.shadow_policy,
        page=_page(args, api),
        own_pod=ObjectReference("Pod", args.pod_namespace, args.pod_name, args.pod_uid) if args.pod_name else None,
        replicas=_replicas(args),
    )


def main(args: argparse.Namespace) -> int:
    extender_settings = settings(args)
    gc.freeze()  # what was imported stays; looking through it again stopped answers for 48 ms
    return run_until_stopped(lambda stop: run(extender_settings, stop))


def host_ports(text: str) -> tuple[tuple[str, int], ...]:
    return tuple(split_host_port(listen_address(part.strip())) for part in text.split(","))


def ring_bytes(text: str) -> int:
    """As 268435456, 256M or 1G."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    size = int(number) * BYTES_BY_UNIT[unit] if number.isdecimal() and unit in BYTES_BY_UNIT else 0
    if size < SMALLEST_RING_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r}: want bytes, or a number with K, M or G; at least 1M")
    return size


BYTES_BY_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _tls(args: argparse.Namespace) -> TlsFiles | None:
    given = {"--tls-cert": args.tls_cert, "--tls-key": args.tls_key, "--tls-client-ca": args.tls_client_ca}
    missing = [flag for flag, path in given.items() if path is None]
    if args.plain_http and len(missing) < len(given):
        raise ValueError("--plain-http and certificates exclude each other; leave one out")
    if args.plain_http:
        return None
    if missing:
        raise ValueError(f"{', '.join(missing)} not given; make them with `leadsman certs`, or pass --plain-http")
    return TlsFiles(args.tls_cert, args.tls_key, args.tls_client_ca, args.tls_client_name)


def _replicas(args: argparse.Namespace) -> ReplicaSettings | None:
    given = {
        "--replicas": args.replicas,
        "--replica-listen": args.replica_listen,
        "--replica-tls": args.replica_tls,
    }
    missing = [flag for flag, value in given.items() if value is None]
    if len(missing) == len(given) and not args.controllers:
        return None
    if missing:
        raise ValueError(f"{', '.join(missing)} not given; --replicas, --replica-listen and --replica-tls go together")
    return ReplicaSettings(split_host_port(args.replica_listen), args.replicas, args.replica_tls, args.controllers)


def _page(args: argparse.Namespace, api: ApiAccess | None) -> PageSettings | None:
    local = split_host_port(args.page_listen) if args.page_listen else None
    if local and local[0] not in LOOPBACK_HOSTS:
        raise ValueError(
            f"--page-listen {args.page_listen}: asks for no token, so it listens on {', '.join(sorted(LOOPBACK_HOSTS))}"
            " alone; for other addresses use --page-service-listen"
        )
    service = _page_service(args, api) if args.page_service_listen else None
    if not (local or service):
        if args.prometheus_url:
            raise ValueError(
                "--prometheus-url is asked by the page alone; serve it with --page-listen or --page-service-listen"
            )
        return None
    url = args.prometheus_url
    prometheus = access_from_url(url, args.prometheus_ca, args.prometheus_token_file) if url else None
    return PageSettings(local, service, prometheus)


def _page_service(args: argparse.Namespace, api: ApiAccess | None) -> PageService:
    folder: Path | None = args.page_tls
    certificate, key = (folder / "tls.crt", folder / "tls.key") if folder else (args.tls_cert, args.tls_key)
    if certificate is None or key is None:
        raise ValueError("--page-service-listen needs a certificate; name its folder with --page-tls")
    if api is None:
        raise ValueError(
            "--page-service-listen needs the API server, which says whose a token is; name it with --kube-api or"
            " --kubeconfig"
        )
    return PageService(split_host_port(args.page_service_listen), args.page_hosts, certificate, key, api)


def _api(args: argparse.Namespace) -> ApiAccess | None:
    """None when no API server is configured: workload locations are then unknown."""
    try:
        return api_access(args)
    except NotInCluster as error:
        if args.bind:
            raise ValueError(f"--bind: {error} with --kube-api or --kubeconfig") from error
        return None
