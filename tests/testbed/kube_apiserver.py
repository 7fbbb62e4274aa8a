"""Runs a real kube-apiserver, by default on loopback, with its own etcd.

KUBEBUILDER_ASSETS or E2E_BIN names the folder of both.

    with KubeApiServer(find_assets(), Path("/tmp/kubernetes")) as api:
        api.url, api.ca_file, api.token("admin"), api.kubeconfig

RBAC and ServiceAccount tokens work. There is no kubelet, controller-manager or scheduler: pods are objects that never
run, and a test creates the ServiceAccounts that it needs. Needs `cryptography`.
"""

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from leadsman.testbed.etcd import Etcd, die_with_parent, free_ports
from tests.testbed.certificates import CertificateAuthority

ASSETS_VARIABLE, ALL_BINARIES_VARIABLE = "KUBEBUILDER_ASSETS", "E2E_BIN"
"""The first one counts, where both are set: it is for the API server alone, the other for whole clusters too."""

READY_WITHIN_SECONDS = 60.0
STOP_WITHIN_SECONDS = 10.0
ADMIN_USER = "admin"


class KubeApiServerMissing(RuntimeError):
    """There is no kube-apiserver on this machine."""


class KubeApiServerFailed(RuntimeError):
    """kube-apiserver ended or did not become ready. The text ends with the last lines of its log."""


def find_assets(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of kube-apiserver and etcd. KubeApiServerMissing says how to name one; a test skips with its text."""
    folder = environ.get(ASSETS_VARIABLE) or environ.get(ALL_BINARIES_VARIABLE, "")
    if not folder:
        raise KubeApiServerMissing(
            f"neither {ASSETS_VARIABLE} nor {ALL_BINARIES_VARIABLE} is set, which name the folder of kube-apiserver"
        )
    for name in ("kube-apiserver", "etcd"):
        if not Path(folder, name).is_file():
            raise KubeApiServerMissing(f"{ASSETS_VARIABLE}={folder}: there is no {name} in it")
    return Path(folder)


class KubeApiServer:
    """One API server, from entry to exit.

    folder: holds its data, and is deleted at the end.
    users: name → groups, beside "admin" of system:masters; each has a token.
    address: of this machine, on which it listens.
    flags: further flags of kube-apiserver.
    disabled_admission: by default what needs a controller-manager: nobody else makes the accounts that pods are given,
        or takes a taint off again.
    """

    def __init__(
        self,
        binaries: Path,
        folder: Path,
        *,
        users: Mapping[str, Sequence[str]] | None = None,
        address: str = "127.0.0.1",
        flags: Sequence[str] = (),
        disabled_admission: Sequence[str] = ("ServiceAccount", "TaintNodesByCondition"),
    ):
        self.folder, self.flags, self._binaries = folder, tuple(flags), binaries
        self._disabled_admission = disabled_admission
        self._users = {ADMIN_USER: ("system:masters",)} | dict(users or {})
        self._address, self._port = address, free_ports(1)[0]
        self.url = f"https://{address}:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self._make_files()
            flags = ("--unsafe-no-fsync",)
            binary = self._binaries / "etcd"
            self._etcd = stack.enter_context(Etcd(self.folder / "etcd", flags=flags, binary=binary))
            stack.callback(self.stop)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def log(self) -> Path:
        return self.folder / "kube-apiserver.log"

    @property
    def pid(self) -> int:
        """The process id of the running API server. KubeApiServerFailed when there is none."""
        if self._process is None:
            raise KubeApiServerFailed("kube-apiserver is not running")
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def token(self, user: str = ADMIN_USER) -> str:
        return f"{user}-token"

    def token_file(self, user: str = ADMIN_USER) -> Path:
        path = self.folder / f"{user.replace(':', '-')}.token"
        path.write_text(self.token(user))
        return path

    def kubeconfig(self, user: str = ADMIN_USER) -> Path:
        """A kubeconfig file, in JSON, which is YAML."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": user,
            "contexts": [{"name": user, "context": {"cluster": "testbed", "user": user}}],
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
        }
        path.write_text(json.dumps(config))
        return path

    def start(self) -> None:
        """Starts it. KubeApiServerFailed when it is not ready in time. It dies with the thread that calls this."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._binaries / "kube-apiserver"), *self._own_flags(), *self.flags],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self._wait_until_ready()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_WITHIN_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Sends SIGKILL; `start` brings the same API server back."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def compact(self) -> None:
        """Compacts etcd: earlier revisions can no longer be read."""
        revision = self._etcd.post("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._etcd.post("/v3/kv/compaction", {"revision": revision})

    def call(self, method: str, path: str, body: Any = None, user: str = ADMIN_USER) -> Any:
        """Sends a request, blocking, and returns the decoded answer. urllib.error.HTTPError when it is refused."""
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.token(user)}", "Content-Type": content}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10, context=self._tls()) as answer:
            return json.load(answer)

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _make_files(self) -> None:
        self.folder.mkdir(parents=True)
        authority = CertificateAuthority("testbed")
        self.ca_file.write_text(authority.pem)
        authority.issue(self._address, "localhost", "kubernetes.default.svc", "10.0.0.1").write(self.folder, "server")
        authority.issue("service-accounts").write(self.folder, "accounts")
        lines = [f'{self.token(user)},{user},{user},"{",".join(groups)}"' for user, groups in self._users.items()]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _own_flags(self) -> list[str]:
        return [
            f"--etcd-servers={self._etcd.client_url}",
            f"--bind-address={self._address}",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--tls-cert-file={self.folder}/server.crt",
            f"--tls-private-key-file={self.folder}/server.key",
            f"--client-ca-file={self.ca_file}",
            f"--service-account-key-file={self.folder}/accounts.crt",
            f"--service-account-signing-key-file={self.folder}/accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={','.join(self._disabled_admission)}",
        ]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while not self._ready():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                what = "ended" if ended else f"is not ready after {READY_WITHIN_SECONDS:g} s"
                raise KubeApiServerFailed(f"kube-apiserver {what}:\n{self._last_lines()}")
            time.sleep(0.1)

    def _ready(self) -> bool:
        """Whether /readyz answers 200; its text is not JSON."""
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token()}"})
        try:
            with urllib.request.urlopen(request, timeout=2, context=self._tls()) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
