"""Three real members behind their gateways stay equal, whatever happens to them, and only members are their peers.

python -m tests.leadsman.etcd.test_locked_members ROUNDS
"""

import asyncio
import itertools
import logging
import random
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from leadsman.runtime.http_server import serve
from leadsman.state import keys
from leadsman.state.records import Heartbeat
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd
from tests.leadsman.etcd.conftest import Reviewer, status
from tests.leadsman.etcd.locked_members import LockedMembers, write_until_done
from tests.testbed.background import running
from tests.testbed.etcd_members import lacks_hashkv

pytestmark = pytest.mark.slow
log = logging.getLogger(__name__)
FAILOVER_SECONDS = 15.0
"""etcd's own election takes 1 to 2 s, and a client's call that hangs 5."""


@asynccontextmanager
async def locked_members(folder: Path, flags: Sequence[str] = (), count: int = 3) -> AsyncIterator[LockedMembers]:
    async with AsyncExitStack() as stack:
        reviewer = Reviewer()
        reviewer.tokens |= {f"node-{number}": status("leadsman-agent", f"node-{number}") for number in range(40)}
        api = web.Application()
        api.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", reviewer.review)
        port = await stack.enter_async_context(serve(api, "127.0.0.1", 0))
        made = LockedMembers(folder, f"http://127.0.0.1:{port}", flags, count)
        stack.callback(made.stop)
        await stack.enter_async_context(running(made.kubelet()))
        await made.ready()
        yield made


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[LockedMembers]:
    async with locked_members(tmp_path) as made:
        yield made


class Agents:
    """Agents that start, report for a while and stop. longest_gap: seconds that a write took until it was done."""

    def __init__(self, members: LockedMembers) -> None:
        self._members, self.writes, self.longest_gap = members, 0, 0.0

    async def run(self, lane: int) -> None:
        for start in itertools.count():
            name = f"node-{(8 * start + lane) % 40}"
            store = self._members.store(name)
            try:
                for number in range(20):
                    put = Put(keys.record_key(name, Heartbeat), str(number).encode())
                    self.longest_gap = max(self.longest_gap, await write_until_done(store, put))
                    self.writes += 1
                    await asyncio.sleep(0.1)
            finally:
                await store.close()


async def torture(members: LockedMembers, rounds: int, rng: random.Random) -> Agents:
    """Members killed, wiped and rolled while agents start and stop. After each round all are equal."""
    agents = Agents(members)
    async with running(*map(agents.run, range(8))):
        for number in range(rounds):
            member = rng.choice(members.all)
            await asyncio.sleep(rng.uniform(0, 1))
            done = rng.choice(("killed", "replaced", "rolled", "grown"))
            if done == "rolled":
                for each in members.all:
                    members.restart(each)
                    await members.ready()
            else:
                members.lose(member, data=done != "killed")
                await asyncio.sleep(rng.uniform(0, 6) if done == "grown" else 0)
            await members.ready()
            states = await equal_states(members)
            figures = (agents.writes, agents.longest_gap)
            log.info("%d %s %s: %s, %d writes, %.1f s", number + 1, member.name, done, states, *figures)
    return agents


async def equal_states(members: LockedMembers) -> Any:
    """What all members have at one revision. AssertionError when they differ."""
    hash_path = "/v3/maintenance/hashkv"
    async with asyncio.timeout(60):
        while True:
            revision = members.all[0].post("/v3/maintenance/status", {})["header"]["revision"]
            try:
                hashes = [await asyncio.to_thread(each.post, hash_path, {"revision": revision}) for each in members.all]
            except urllib.error.HTTPError:  # One is not there yet.
                await asyncio.sleep(0.1)
                continue
            users = [await asyncio.to_thread(each.post, "/v3/auth/status", {}) for each in members.all]
            states = {(each["hash"], each["compact_revision"]) for each in hashes}
            assert len(states) == 1, hashes
            assert not any(each.get("enabled") for each in users), "no member checks permissions when it applies"
            return states.pop()


async def test_members_are_equal_and_no_report_is_lost_while_they_are_killed_replaced_and_rolled(
    members: LockedMembers,
) -> None:
    if lacking := lacks_hashkv(members.all[0]):
        pytest.skip(lacking)
    agents = await torture(members, 2, random.Random(7))
    assert agents.longest_gap < FAILOVER_SECONDS


async def test_a_peer_without_the_members_certificate_is_refused(members: LockedMembers) -> None:
    """kube-scheduler's own certificate too: its CA is another one."""
    for pair in (None, "client"):
        with pytest.raises((urllib.error.URLError, OSError)):
            await asyncio.to_thread(_members_seen_by, members.all[0], members.certs, pair)
    assert await asyncio.to_thread(_members_seen_by, members.all[0], members.certs, "etcd")


def _members_seen_by(member: Etcd, certs: Path, pair: str | None) -> bytes:
    context = ssl.create_default_context(cafile=str(certs / "etcd-ca.crt"))
    if pair:
        context.load_cert_chain(certs / f"{pair}.crt", certs / f"{pair}.key")
    with urllib.request.urlopen(f"{member.peer_url}/members", timeout=10, context=context) as response:
        return bytes(response.read())


async def _torture_alone(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with locked_members(Path(folder)) as members:
            if lacking := lacks_hashkv(members.all[0]):
                sys.exit(lacking)
            agents = await torture(members, rounds, random.Random(1))
    log.info("%d rounds, equal each time; %d writes, the slowest %.1f s", rounds, agents.writes, agents.longest_gap)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asyncio.run(_torture_alone(int(sys.argv[1])))
