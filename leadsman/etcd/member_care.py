"""Cares for a running member without a hand: a full store, and data that differ from the others'.

    NOSPACE alarm     history is compacted and the file defragmented; the alarm is disarmed once there is room
    other data        the hash of all keys at one revision is compared with every other member's; a member that alone
                      differs, in three rounds, is removed, loses its data, and joins the others again
    no answer         a member with data that does not answer for three minutes, while the others have a majority, is
                      replaced the same way: its data may be what keeps it from starting

etcd's own checks raise an alarm at most, after which nobody can write.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct, field, structs
from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.etcd.member_start import EtcdFlags, MemberList, MemberStart
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
from leadsman.state.etcd_json import AnyResponse, JsonBody
from leadsman.state.store import Compacted, StoreError

log = logging.getLogger(__name__)

ROUND_SECONDS = 10.0
COMPARE_EVERY_ROUNDS = 30
"""A comparison reads the whole store in each member: some 100 ms at 5,000 nodes."""

DIFFERENT_ROUNDS = 3
SILENT_SECONDS = 180.0
"""etcd's own start, with an election and a snapshot from the others, takes seconds."""

ROOM_RATIO = 0.8
"""An alarm is disarmed when this share of the quota is free. An alarm that is disarmed with less room comes back within
seconds."""


class Header(Struct, frozen=True):
    """Mirrors the header of a member's own response."""

    member_id: str
    revision: int = 0


class Status(Struct, frozen=True):
    """Mirrors the response to a question for a member's status. Source: etcdserverpb.StatusResponse."""

    header: Header
    db_size: int = field(name="dbSize", default=0)
    errors: tuple[str, ...] = ()


class Alarm(Struct, frozen=True):
    """One alarm, and who raised it."""

    member_id: str = field(name="memberID", default="")
    alarm: str = ""


class Alarms(Struct, frozen=True):
    """Mirrors the response to a question for alarms. Source: etcdserverpb.AlarmResponse."""

    alarms: tuple[Alarm, ...] = ()


class Hash(Struct, frozen=True):
    """The hash of all keys up to a revision, of those that are not compacted. Source: etcdserverpb.HashKVResponse."""

    hash: int = 0
    compact_revision: int = 0


class MemberCare:
    """Cares for the member whose flags these are. access: as of MemberStart. config: the file that etcd starts with.

    local_url: where the member answers this process alone.
    differs: whether its data were found to differ from the others', and it is not yet replaced.
    problem: why the member cannot serve; "" when it can.
    """

    def __init__(
        self, flags: EtcdFlags, access: EtcdAccess, config: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._flags, self._access, self._config, self._clock = flags, access, config, clock
        self.local_url = flags.values["listen-client-urls"].partition(",")[0]
        self._local = EtcdTransport(EtcdAccess((self.local_url,), call_timeout_seconds=5.0))
        names_and_urls = zip(flags.members, access.endpoints, strict=True)
        self._others = {
            name: EtcdTransport(structs.replace(access, endpoints=(url,)))
            for name, url in names_and_urls
            if name != flags.name
        }
        self._quota = int(flags.values.get("quota-backend-bytes", 2 << 30))
        self._different_rounds = self.replacements = 0
        self._size = 0
        self._answered_at = clock()
        self.problem = "etcd was not asked yet"
        self._replacement_problem = ProblemLog(
            log, "the other members cannot remove this one now", "the others removed this member of etcd", logging.ERROR
        )

    @property
    def differs(self) -> bool:
        return self._different_rounds > 0

    async def run(self) -> None:
        """Looks after the member until it is cancelled."""
        round_number = 0
        while True:
            round_number += 1
            try:
                await self.look(compare=round_number % COMPARE_EVERY_ROUNDS == 0)
            except StoreError as error:
                self.problem = str(error)
                if self._is_silent_for_long():
                    await self._replace_if_others_agree(f"it has not answered for {SILENT_SECONDS:g} s: {error}")
            await asyncio.sleep(ROUND_SECONDS if not self.problem else 1.0)

    async def look(self, *, compare: bool) -> None:
        """Looks at the member once. Raises StoreError when the member does not answer."""
        status = await self._local.call("/v3/maintenance/status", {}, Status)
        self._size, self._answered_at, self.problem = status.db_size, self._clock(), ""
        if any("NOSPACE" in error for error in status.errors):
            await self._make_room(status)
        if compare:
            self._different_rounds = self._different_rounds + 1 if await self._differs(status.header.revision) else 0
            if self._different_rounds >= DIFFERENT_ROUNDS:
                await self._replace_if_others_agree("its data differ from the others'")

    async def _make_room(self, status: Status) -> None:
        """Each member makes room in its own file, and disarms the alarm that it raised itself, and those of members
        that are gone: an alarm outlives the member that raised it."""
        compaction = {"revision": str(status.header.revision), "physical": True}
        try:
            await self._local.call("/v3/kv/compaction", compaction, AnyResponse)
        except Compacted:
            log.debug("another member compacted etcd's history already")
        await self._local.call("/v3/maintenance/defragment", {}, AnyResponse)
        self._size = (await self._local.call("/v3/maintenance/status", {}, Status)).db_size
        if self._size > ROOM_RATIO * self._quota:
            log.error(
                "etcd is full of live data, %d of %d bytes: raise its quota, or delete keys", self._size, self._quota
            )
            return
        raised = {each.member_id for each in (await self._alarms({"action": "GET"})).alarms if each.alarm == "NOSPACE"}
        members = {each.id for each in (await self._local.call("/v3/cluster/member/list", {}, MemberList)).members}
        for member in raised & {status.header.member_id} | raised - members:
            await self._alarms({"action": "DEACTIVATE", "alarm": "NOSPACE", "memberID": member})
            log.warning(
                "etcd was full: it was compacted to %d bytes, and member %s's alarm disarmed", self._size, member
            )

    async def _alarms(self, request: JsonBody) -> Alarms:
        return await self._local.call("/v3/maintenance/alarm", request, Alarms)

    async def _differs(self, revision: int) -> bool:
        """Tells whether all others have one hash and this member another. False when it cannot be said now."""
        try:
            own = await self._hash(self._local, revision)
            others = [await self._hash(other, revision) for other in self._others.values()]
        except StoreError as error:
            log.debug("the members' data cannot be compared now: %s", error)
            return False
        if len(others) < 2 or len({*others}) > 1 or others[0].compact_revision != own.compact_revision:
            return False
        if others[0].hash != own.hash:
            log.error("the data of this member of etcd differ from the others' at revision %d", revision)
        return others[0].hash != own.hash

    async def _hash(self, member: EtcdTransport, revision: int) -> Hash:
        return await member.call("/v3/maintenance/hashkv", {"revision": str(revision)}, Hash)

    def _is_silent_for_long(self) -> bool:
        has_data = (Path(self._flags.values["data-dir"]) / "member" / "wal").is_dir()
        return has_data and self._clock() - self._answered_at > SILENT_SECONDS

    async def _replace_if_others_agree(self, reason: str) -> None:
        """The others' majority removes this member, whose etcd then ends; kubelet starts it with the new file.

        The file is away meanwhile, so that etcd cannot start with half of what it needs; but not before a majority has
        answered: were all members silent, none could start.
        """
        start = MemberStart(self._flags, self._access)
        try:
            await start.replace_former_self(add=False, before_removal=partial(self._config.unlink, missing_ok=True))
        except StoreError as error:
            if not self._config.exists():
                self._config.write_text(self._flags.config_file(self._flags.members, is_new=False))
            self._replacement_problem.report(error)
            return
        log.error("this member of etcd is replaced: %s", reason)
        self._replacement_problem.clear()
        self._config.unlink(missing_ok=True)
        await self._until_ended()
        shutil.rmtree(self._flags.values["data-dir"], ignore_errors=True)
        await start.write_config(self._config)
        self.replacements += 1
        self._different_rounds, self._answered_at = 0, self._clock()

    async def _until_ended(self) -> None:
        for _ in range(30):
            try:
                await self._local.call("/v3/maintenance/status", {}, Status)
            except StoreError:
                return
            await asyncio.sleep(1.0)

    async def close(self) -> None:
        for transport in (self._local, *self._others.values()):
            await transport.close()

    def families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "leadsman_etcd_member_differs", "Whether its data differ from the others'.", self.differs
        )
        yield GaugeMetricFamily(
            "leadsman_etcd_size_ratio", "Size of etcd's file in its quota.", self._size / self._quota
        )
