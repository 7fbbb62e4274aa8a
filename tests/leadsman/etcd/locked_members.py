"""Real members, each behind a real `leadsman etcd-member`, with the files of `leadsman certs`, as in their pods.

What ends is started again, as kubelet does: etcd once its configuration file is there.
"""

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from leadsman.cli.main import main
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Put, StoreError
from leadsman.testbed.etcd import Etcd, free_ports
from tests.testbed.etcd_members import create_members

WITHIN_SECONDS = 90.0


class LockedMembers:
    """The members. away: names of those whose node is away. api_url: of an API server that reviews tokens."""

    def __init__(self, folder: Path, api_url: str, flags: Sequence[str] = (), count: int = 3) -> None:
        self.folder, self._api_url = folder, api_url
        self.certs = folder / "certs"
        assert main(["certs", "create", "--dir", str(self.certs)]) == 0
        files = {"peer-cert-file": "etcd.crt", "peer-key-file": "etcd.key", "peer-trusted-ca-file": "etcd-ca.crt"}
        peer_flags = [f"--{flag}={self.certs / name}" for flag, name in files.items()]
        self.all = create_members(folder, count, flags=[*peer_flags, "--peer-client-cert-auth=true", *flags])
        for member in self.all:
            member.peer_url = member.peer_url.replace("http:", "https:")
        for member in self.all:
            member.initial_cluster = ",".join(f"{other.name}={other.peer_url}" for other in self.all)
        names = [member.name for member in self.all]
        ports = free_ports(2 * len(names))
        self._gateways = dict(zip(names, ports[: len(names)], strict=True))
        self._ops = dict(zip(names, ports[len(names) :], strict=True))
        self.urls = tuple(f"https://localhost:{port}" for port in self._gateways.values())
        self._helpers: dict[str, subprocess.Popen[bytes]] = {}
        self.away = set(names)

    def token(self, name: str) -> Path:
        file = self.folder / f"token-{name}"
        file.write_text(name)
        return file

    def store(self, token: str) -> EtcdStore:
        access = EtcdAccess(self.urls, str(self.certs / "etcd-ca.crt"), self.token(token), call_timeout_seconds=5.0)
        return EtcdStore(access, silence_seconds=10.0)

    async def kubelet(self) -> None:
        """Until cancelled."""
        while True:
            for member in self.all:
                if member.name not in self.away:
                    self._start_what_ended(member)
            await asyncio.sleep(0.05)

    def _start_what_ended(self, member: Etcd) -> None:
        helper, config = self._helpers.get(member.name), self._config(member)
        if helper is None or helper.poll() is not None:
            self._helpers[member.name] = self._start_helper(member)
        elif config.exists() and not member.is_running:
            member.config_file = config
            member.start(wait=False)

    def _start_helper(self, member: Etcd) -> subprocess.Popen[bytes]:
        pair = (f"--tls-cert={self.certs}/etcd.crt", f"--tls-key={self.certs}/etcd.key")
        command = [
            *(sys.executable, "-m", "leadsman.cli.main", "etcd-member", f"--config={self._config(member)}"),
            *(f"--etcd={','.join(self.urls)}", f"--etcd-ca={self.certs}/etcd-ca.crt", *pair),
            *(f"--etcd-token-file={self.token('of-a-member')}", f"--kube-api={self._api_url}"),
            *(f"--listen=127.0.0.1:{self._gateways[member.name]}", f"--ops-listen=127.0.0.1:{self._ops[member.name]}"),
            *("--", *member.command_flags()),
        ]
        with (self.folder / f"{member.name}-helper.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _config(self, member: Etcd) -> Path:
        return self.folder / f"{member.name}.yaml"

    def lose(self, member: Etcd, *, data: bool) -> None:
        """Its node is away at once. data: and comes back without it."""
        self.away.add(member.name)
        helper = self._helpers.pop(member.name, None)
        if helper:
            helper.kill()
            helper.wait()
        member.wipe() if data else member.kill()
        self._config(member).unlink(missing_ok=True)

    def restart(self, member: Etcd) -> None:
        """A rolling update: its pod ends in order and begins again without data."""
        self.away.add(member.name)
        member.stop()
        self.lose(member, data=True)

    async def ready(self) -> None:
        """All are back: each answers, and each gateway says so."""
        self.away.clear()
        async with asyncio.timeout(WITHIN_SECONDS):
            for member in self.all:
                while not await asyncio.to_thread(self._is_ready, member):  # noqa: ASYNC110 -- what is waited for has no event
                    await asyncio.sleep(0.1)

    def _is_ready(self, member: Etcd) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ops[member.name]}/readyz", timeout=2) as response:
                return bool(response.status == 200) and member.is_healthy()
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        for member in self.all:
            self.lose(member, data=False)


async def write_until_done(store: EtcdStore, put: Put, within_seconds: float = WITHIN_SECONDS) -> float:
    """A client's own attempts. Seconds that they took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(within_seconds):
        while True:
            try:
                await store.write([put])
                return loop.time() - began
            except StoreError:
                await asyncio.sleep(0.1)
