"""Finds out how a member without data begins, and writes etcd's configuration file for it.

The members' addresses are those that etcd will have: until then this process answers on the member's peer port, so that
the others can ask whether it has data.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Struct, structs

from leadsman.etcd.membership import (
    Assembly,
    EtcdFlags,
    InitialCluster,
    Member,
    Statement,
    former_selves,
    joined_cluster,
)
from leadsman.runtime.http_server import serve, track_request
from leadsman.runtime.mutual_tls import MutualTls, TlsFiles
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
from leadsman.state.etcd_json import AnyResponse, AuthDisabled
from leadsman.state.store import StoreError

log = logging.getLogger(__name__)

STATEMENT_PATH = "/leadsman/member-without-data"
"""etcd's own server answers 404 on its peer port."""

ROUND_SECONDS = 0.5


class MemberList(Struct, frozen=True):
    """The response to a list of members, and to one that was added."""

    members: tuple[Member, ...] = ()


class MemberStart:
    """The start of one member. access: all members' client URLs, in the order of --initial-cluster."""

    def __init__(self, flags: EtcdFlags, access: EtcdAccess) -> None:
        if len(access.endpoints) != len(flags.members):
            raise ValueError(
                f"{len(access.endpoints)} client URLs for {len(flags.members)} members of --initial-cluster; give one "
                "for each, in the same order"
            )
        self._flags = flags
        client_urls = dict(zip(flags.members, access.endpoints, strict=True))
        self._others = {name: url for name, url in client_urls.items() if name != flags.name}
        self._access = structs.replace(access, endpoints=tuple(self._others.values()) or access.endpoints)
        self._assembly = Assembly(flags.name, self._others)
        self._removed = False
        self._tls = _peer_tls(flags)
        self._problem = ProblemLog(log, f"etcd member {flags.name} has no data and waits", "the wait is over")

    async def write_config(self, path: Path) -> None:
        """Writes the file, once it is known how the member begins. OSError when it cannot be written."""
        has_data = (Path(self._flags.values["data-dir"]) / "member" / "wal").is_dir()
        if has_data:
            log.info("etcd member %s has data and goes on with it", self._flags.name)
            cluster = InitialCluster(self._flags.members, is_new=False)
        else:
            cluster = await self._find_cluster()
        new = path.with_name(f".{path.name}.new")
        new.write_text(self._flags.config_file(cluster))
        new.replace(path)

    async def _find_cluster(self) -> InitialCluster:
        async with self._answer_others(), self._session() as session:
            while True:
                if cluster := await self._join():
                    return cluster
                await asyncio.gather(*(self._ask(session, name) for name in self._others))
                # The others may have begun while this one asked, and then they listed it, and it was removed.
                if self._assembly.is_complete() and not self._removed:
                    log.info("no member of etcd has data: %s begins a new cluster with all", self._flags.name)
                    return InitialCluster(self._flags.members, is_new=True)
                await asyncio.sleep(ROUND_SECONDS)

    async def _join(self) -> InitialCluster | None:
        """The cluster that the others form, with this member in the place of its former self. None when there is none.

        A list that a majority confirms is what proves the cluster; every change goes through that majority too.
        """
        if not self._others:
            return None
        try:
            return await self._join_with(self._access)
        except AuthDisabled:
            with suppress(StoreError):
                return await self._join_with(structs.replace(self._access, user=""))
        except StoreError as error:
            self._problem.report(f"{error}; {self._who_is_missing()}")
        return None

    async def _join_with(self, access: EtcdAccess) -> InitialCluster:
        transport = EtcdTransport(access)
        try:
            listed = await transport.call("/v3/cluster/member/list", {"linearizable": True}, MemberList)
            for former in former_selves(listed.members, self._flags.name, self._flags.peer_url):
                await transport.call("/v3/cluster/member/remove", {"ID": former.id}, AnyResponse)
                self._removed = True
                log.info("removed %s's former self from etcd's members: %s", self._flags.name, former.id)
            added = await transport.call("/v3/cluster/member/add", {"peerURLs": [self._flags.peer_url]}, MemberList)
        finally:
            await transport.close()
        log.info("etcd member %s joins the %d others", self._flags.name, len(added.members) - 1)
        return joined_cluster(added.members, self._flags.members)

    def _who_is_missing(self) -> str:
        if self._removed:
            return "it is added as soon as the others have been connected for some seconds"
        silent = sorted(self._others.keys() - self._assembly.heard)
        if not silent:
            return "all members have no data and begin together"
        return (
            f"a new cluster begins only when these say that they have no data either: {', '.join(silent)}. If one of "
            "them has data and no majority, and that data can be given up, delete its pod"
        )

    async def _ask(self, session: aiohttp.ClientSession, name: str) -> None:
        with suppress(aiohttp.ClientError, TimeoutError, msgspec.DecodeError, OSError):
            async with session.get(self._flags.members[name] + STATEMENT_PATH) as response:
                if response.status == web.HTTPOk.status_code:
                    self._assembly.hear(msgspec.json.decode(await response.read(), type=Statement))
                    return
        # On the peer port: etcd serves its client port only once a majority has elected a leader.
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.get(f"{self._flags.members[name]}/version") as response:
                if response.status == web.HTTPOk.status_code:
                    self._assembly.runs(name)

    def _session(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=self._access.call_timeout_seconds)
        return aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(ssl=_client_context(self._tls)))

    @asynccontextmanager
    async def _answer_others(self) -> AsyncIterator[None]:
        async def answer(_: web.Request) -> web.Response:
            body = msgspec.json.encode(self._assembly.statement())
            return web.Response(body=body, content_type="application/json")

        app = web.Application(middlewares=[track_request])
        app.router.add_get(STATEMENT_PATH, answer)
        listen = urlsplit(self._flags.values["listen-peer-urls"].partition(",")[0])
        tls = MutualTls(self._tls) if self._tls else None
        async with serve(app, listen.hostname or "", listen.port or 2380, tls=tls):
            yield


def _peer_tls(flags: EtcdFlags) -> TlsFiles | None:
    """The files with which etcd's peers know each other, and the hosts that their certificate names. None: no TLS."""
    if not flags.peer_url.startswith("https:"):
        return None
    values: Mapping[str, str] = flags.values
    certificate, key, ca = (Path(values[f"peer-{name}"]) for name in ("cert-file", "key-file", "trusted-ca-file"))
    return TlsFiles(certificate, key, ca, frozenset(urlsplit(url).hostname or "" for url in flags.members.values()))


def _client_context(files: TlsFiles | None) -> ssl.SSLContext | bool:
    if files is None:
        return True
    context = ssl.create_default_context(cafile=str(files.client_ca))
    context.load_cert_chain(files.certificate, files.key)
    return context
