"""Where the extender's replicas are: at a URL, or in the cluster behind `kubectl port-forward`."""

import argparse
import base64
import contextlib
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from leadsman.cli.flags.values import THROUGH_KUBECTL
from leadsman.cli.kubectl import Kubectl, KubectlError

SCHEDULER_SECRET, SCHEDULER_NAMESPACE = "leadsman-scheduler-tls", "kube-system"
"""Made by `leadsman certs secrets`: the client's pair and our CA's certificate. The chart's job and cert-manager make
it in Leadsman's namespace instead, as `--scheduler-namespace` may."""

API_PORT = 9008
"""Of the extender's API and page, on its pod's loopback address."""

SELECTOR = "app.kubernetes.io/name=leadsman,app.kubernetes.io/component=extender"


class Replica(Struct, frozen=True):
    """One extender, as it can be asked.

    forwarded: through kubectl, so that no proxy of the environment stands between.
    """

    name: str
    url: str
    tls: ssl.SSLContext | None = None
    forwarded: bool = False


class NamedTls(ssl.SSLContext):
    """Expects the certificate of `server_name`, whatever address is called: a forwarded port has no name of its own."""

    server_name: str

    def wrap_socket(self, sock: Any, *args: Any, **more: Any) -> ssl.SSLSocket:
        return super().wrap_socket(sock, *args, **{**more, "server_hostname": self.server_name})


def tls_of_folder(certs: Path) -> ssl.SSLContext:
    """The client's side of mutual TLS, from a folder that `leadsman certs` made. ValueError."""
    try:
        context = ssl.create_default_context(cafile=certs / "ca.crt")
        context.load_cert_chain(certs / "client.crt", certs / "client.key", password="")
    except OSError as error:
        raise ValueError(f"--certs {certs}: {error}; want a folder that `leadsman certs create` made") from error
    return context


def extender_pods(kubectl: Kubectl, namespace: str) -> Sequence[Mapping[str, Any]]:
    """The running extender pods, ready ones first. KubectlError when there is none."""
    pods = kubectl.json("get", "pods", "-n", namespace, "-l", SELECTOR)["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    if not running:
        raise KubectlError(
            f"no extender runs in the namespace {namespace}; name another one with --extender-namespace,"
            f" or look at it: kubectl get pods -n {namespace}"
        )
    return sorted(running, key=lambda pod: (not is_ready(pod), pod["metadata"]["name"]))


def is_ready(pod: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


@contextlib.contextmanager
def forwarded(
    kubectl: Kubectl, pod: Mapping[str, Any], port_name: str, tls: ssl.SSLContext | None = None
) -> Iterator[Replica]:
    """The pod as a replica, behind a forwarded port. port_name: https or ops."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    ports = {
        port["name"]: port["containerPort"] for each in pod["spec"]["containers"] for port in each.get("ports", ())
    }
    if port_name not in ports:
        raise KubectlError(f"the pod {namespace}/{name} names no port {port_name}, only {', '.join(ports) or 'none'}")
    with kubectl.port_forward(namespace, name, ports[port_name]) as port:
        yield Replica(name, f"{'https' if tls else 'http'}://127.0.0.1:{port}", tls, forwarded=True)


def is_plain(pod: Mapping[str, Any]) -> bool:
    return any("--plain-http" in each.get("args", ()) for each in pod["spec"]["containers"])


def tls_of_secret(kubectl: Kubectl, namespace: str, certs: Path | None) -> NamedTls:
    """TLS to a forwarded extender: by the folder, or by the Secret that kube-scheduler uses. KubectlError, ValueError.

    namespace: the extender's; its Service's name there is in its certificate.
    """
    context = NamedTls(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = f"leadsman-extender.{namespace}.svc"
    if certs is not None:
        tls_of_folder(certs)
        _load(context, certs, "client.crt", "client.key")
        return context
    secret = _client_secret(kubectl, namespace)
    with tempfile.TemporaryDirectory(prefix="leadsman-") as folder:
        for name in ("ca.crt", "tls.crt", "tls.key"):
            Path(folder, name).write_bytes(base64.b64decode(secret[name]))
        _load(context, Path(folder), "tls.crt", "tls.key")
    return context


def _client_secret(kubectl: Kubectl, namespace: str) -> Mapping[str, str]:
    refused = []
    for place in dict.fromkeys((SCHEDULER_NAMESPACE, namespace)):
        try:
            return dict(kubectl.json("get", "secret", SCHEDULER_SECRET, "-n", place)["data"])
        except KubectlError as error:
            refused.append(str(error))
    raise KubectlError(
        f"{'; '.join(refused)}; the extender answers only who has a certificate: name the folder that `leadsman certs`"
        " made with --certs DIR"
    )


def _load(context: ssl.SSLContext, folder: Path, certificate: str, key: str) -> None:
    context.load_verify_locations(cafile=folder / "ca.crt")
    context.load_cert_chain(folder / certificate, folder / key, password="")


@contextlib.contextmanager
def replicas(args: argparse.Namespace) -> Iterator[Sequence[Replica]]:
    """Every extender that the flags name. KubectlError, ValueError."""
    if args.extender != THROUGH_KUBECTL:
        yield [Replica(args.extender, args.extender, tls_of_folder(args.certs) if args.certs else None)]
        return
    kubectl, namespace = Kubectl.of(args), args.extender_namespace
    with contextlib.ExitStack() as stack:
        pods = extender_pods(kubectl, namespace)
        tls = None if all(map(is_plain, pods)) else tls_of_secret(kubectl, namespace, args.certs)
        yield [stack.enter_context(forwarded(kubectl, pod, "https", None if is_plain(pod) else tls)) for pod in pods]
