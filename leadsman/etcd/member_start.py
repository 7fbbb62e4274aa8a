"""Finds out how a member without data begins, and writes etcd's configuration file for it.

The members' addresses are those that etcd will have: until then this process answers on the member's peer port, so that
the others can ask whether it has data.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import yaml
from aiohttp import web
from msgspec import Struct, field, structs

from leadsman.runtime.http_server import serve
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.server_tls import ServerTls, TlsFiles
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
from leadsman.state.etcd_json import AnyResponse
from leadsman.state.store import StoreError

# How a member of etcd that has no data begins: it joins the cluster of the others, or all form a new one.
#
# A new cluster is formed only when each member has said of itself, in this start of this member, that it has no data.
# A member that merely does not answer may have data. So nobody who lost its data votes twice in one cluster, and what a
# majority has written is never started over.


class Member(Struct, frozen=True):
    """A member as etcd lists it. name: "" until it has started. Source: etcdserverpb.Member."""

    id: str = field(name="ID")
    name: str = ""
    peer_urls: tuple[str, ...] = field(name="peerURLs", default=())


class Statement(Struct, frozen=True):
    """A member without data tells the others this of itself.

    name: its name.
    heard: the other members that it has heard say the same.
    """

    name: str
    heard: tuple[str, ...] = ()


class Assembly:
    """Holds which members have no data, as one member without data has heard it.

    heard: others that said so themselves. ready: others that heard it of every member, and need this one no more.
    """

    def __init__(self, name: str, others: Iterable[str]) -> None:
        self.name, self._others = name, frozenset(others)
        self.heard: set[str] = set()
        self.ready: set[str] = set()

    def statement(self) -> Statement:
        return Statement(self.name, tuple(sorted(self.heard)))

    def hear(self, statement: Statement) -> None:
        """Notes that a member without data answered."""
        if statement.name in self._others:
            self.heard.add(statement.name)
            if {self.name, *self._others} <= {statement.name, *statement.heard}:
                self.ready.add(statement.name)

    def runs(self, other: str) -> None:
        """The member's etcd answers. If it had no data in this start, it began with the new cluster."""
        if other in self.heard:
            self.ready.add(other)

    def is_complete(self) -> bool:
        """Tells whether nobody has data, and nobody waits to hear it of this member."""
        return self.heard == self.ready == self._others


def former_selves(members: Iterable[Member], name: str, peer_url: str) -> list[Member]:
    """Returns the members to remove before this one is added: those of its name or at its address."""
    return [each for each in members if each.name == name or peer_url in each.peer_urls]


def joined_members(members: Iterable[Member], configured: Mapping[str, str]) -> Mapping[str, str]:
    """Maps the name of each member that etcd lists to its peer URL. configured: as many; it names those that have not
    started."""
    name_by_url = {url: name for name, url in configured.items()}
    return {each.name or name_by_url.get(each.peer_urls[0], f"member-{each.id}"): each.peer_urls[0] for each in members}


_SECTIONS = {"": "client-transport-security", "peer-": "peer-transport-security"}
_TLS_FLAGS = ("cert-file", "key-file", "client-cert-auth", "trusted-ca-file")


class EtcdFlags(Struct, frozen=True):
    """Holds etcd's command-line flags, as `--name=value`."""

    values: Mapping[str, str]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "EtcdFlags":
        """Raises ValueError for another form, and without one that is needed."""
        pairs = [argument.partition("=") for argument in arguments]
        if wrong := [name for name, equals, _ in pairs if not (name.startswith("--") and equals)]:
            raise ValueError(f"{', '.join(wrong)}: flags of etcd must be --NAME=VALUE")
        values = {name.removeprefix("--"): value for name, _, value in pairs}
        if missing := [f"--{name}" for name in NEEDED_FLAGS if not values.get(name)]:
            raise ValueError(f"flags of etcd lack {', '.join(missing)}")
        flags = cls(values)
        if flags.members.get(flags.name) != values["initial-advertise-peer-urls"]:
            raise ValueError(f"--initial-cluster must have {flags.name}={values['initial-advertise-peer-urls']}")
        return flags

    @property
    def name(self) -> str:
        return self.values["name"]

    @property
    def peer_url(self) -> str:
        return self.values["initial-advertise-peer-urls"]

    @property
    def members(self) -> Mapping[str, str]:
        """Maps each name of --initial-cluster to its peer URL."""
        return dict(each.partition("=")[::2] for each in self.values["initial-cluster"].split(","))

    def config_file(self, members: Mapping[str, str], *, is_new: bool) -> str:
        """Writes etcd's --config-file, in YAML; with one, etcd reads no flag. Source: server/embed/config.go of etcd.

        members: name → peer URL, of the cluster. is_new: all of them start without data.
        """
        config: dict[str, Any] = {}
        for flag, text in self.values.items():
            value = yaml.safe_load(text) if text else ""
            prefix = "peer-" if flag.startswith("peer-") else ""
            if flag.removeprefix(prefix) in _TLS_FLAGS:
                config.setdefault(_SECTIONS[prefix], {})[flag.removeprefix(prefix)] = value
            else:
                config[flag] = value
        config["initial-cluster"] = ",".join(f"{name}={url}" for name, url in members.items())
        config["initial-cluster-state"] = "new" if is_new else "existing"
        return yaml.safe_dump(config, sort_keys=False)


NEEDED_FLAGS = ("name", "data-dir", "listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster")


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
        """Writes the file, once it is known how the member begins. Raises OSError when it cannot be written."""
        has_data = (Path(self._flags.values["data-dir"]) / "member" / "wal").is_dir()
        if has_data:
            log.info("etcd member %s has data and continues with it", self._flags.name)
            members, is_new = self._flags.members, False
        else:
            members, is_new = await self._find_cluster()
        new = path.with_name(f".{path.name}.new")
        new.write_text(self._flags.config_file(members, is_new=is_new))
        new.replace(path)

    async def _find_cluster(self) -> tuple[Mapping[str, str], bool]:
        """Returns the members' peer URLs by name, and whether all of them start without data."""
        async with self._answer_others(), self._session() as session:
            while True:
                if joined := await self._join():
                    return joined, False
                await asyncio.gather(*(self._ask(session, name) for name in self._others))
                # The others may have begun while this one asked, and then they listed it, and it was removed.
                if self._assembly.is_complete() and not self._removed:
                    log.info("no member of etcd has data: %s starts a new cluster with all members", self._flags.name)
                    return self._flags.members, True
                await asyncio.sleep(ROUND_SECONDS)

    async def _join(self) -> Mapping[str, str] | None:
        """Returns the cluster that the others form, with this member in the place of its former self. None when there
        is none.

        A list that a majority confirms is what proves the cluster; every change goes through that majority too.
        """
        if not self._others:
            return None
        try:
            added = await self.replace_former_self(add=True)
            log.info("etcd member %s joins %d other members", self._flags.name, len(added) - 1)
            return joined_members(added, self._flags.members)
        except StoreError as error:
            self._problem.report(f"{error}; {self._who_is_missing()}")
        return None

    async def replace_former_self(
        self, *, add: bool, before_removal: Callable[[], None] = lambda: None
    ) -> tuple[Member, ...]:
        """Has the others remove every member of this name or address. The members with this one, once it is added.

        before_removal: called when a majority has listed a member that is to be removed.
        """
        transport = EtcdTransport(self._access)
        try:
            listed = await transport.call("/v3/cluster/member/list", {"linearizable": True}, MemberList)
            for former in former_selves(listed.members, self._flags.name, self._flags.peer_url):
                before_removal()
                await transport.call("/v3/cluster/member/remove", {"ID": former.id}, AnyResponse)
                self._removed = True
                log.info("removed %s's former self from etcd's members: %s", self._flags.name, former.id)
            if not add:
                return ()
            body = {"peerURLs": [self._flags.peer_url]}
            return (await transport.call("/v3/cluster/member/add", body, MemberList)).members
        finally:
            await transport.close()

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

        app = web.Application()
        app.router.add_get(STATEMENT_PATH, answer)
        listen = urlsplit(self._flags.values["listen-peer-urls"].partition(",")[0])
        tls = ServerTls(self._tls) if self._tls else None
        async with serve(app, listen.hostname or "", listen.port or 2380, tls=tls):
            yield


def _peer_tls(flags: EtcdFlags) -> TlsFiles | None:
    """Returns the files with which etcd's peers know each other, and the hosts that their certificate names. None: no
    TLS."""
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
