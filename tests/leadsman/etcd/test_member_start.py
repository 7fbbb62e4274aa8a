"""Members of a real etcd lose their data and come back, each through the file that `leadsman etcd-member` writes."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.error import HTTPError

import pytest

from leadsman.etcd.member_start import EtcdFlags, MemberStart
from leadsman.state.etcd_http import EtcdAccess
from leadsman.testbed.etcd import Etcd
from tests.testbed.etcd_members import create_members

WITHIN_SECONDS = 90.0
"""On a machine that others keep busy."""
KEY = base64.b64encode(b"kept").decode()

pytestmark = pytest.mark.slow


class Members:
    """Three members, each started as its pod does: by the file that MemberStart writes."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self.all = create_members(folder, 3, flags)
        self.access = EtcdAccess(tuple(member.client_url for member in self.all), call_timeout_seconds=3.0)

    async def begin(self, member: Etcd) -> None:
        """What the init container does, and then the container."""
        flags = EtcdFlags.parse(member.command_flags())
        config = self.folder / f"{member.name}.yaml"
        await MemberStart(flags, self.access).write_config(config)
        member.config_file = config
        member.start(wait=False)

    async def begin_all(self) -> None:
        async with asyncio.timeout(WITHIN_SECONDS):
            await asyncio.gather(*map(self.begin, self.all))
        await self.healthy(*self.all)

    async def healthy(self, *members: Etcd) -> None:
        for member in members:
            await asyncio.to_thread(member.wait_until_healthy, WITHIN_SECONDS)

    async def write(self, member: Etcd) -> None:
        """Writes KEY, as soon as the members have a leader again."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                try:
                    await asyncio.to_thread(member.post, "/v3/kv/put", {"key": KEY, "value": KEY})
                    return
                except HTTPError:
                    await asyncio.sleep(0.1)

    def voters(self, asked: Etcd) -> dict[str, str]:
        """Name → ID of the members that vote, as one of them sees it."""
        listed = asked.post("/v3/cluster/member/list", {"linearizable": True})["members"]
        return {each.get("name", ""): each["ID"] for each in listed if not each.get("isLearner")}


@pytest.fixture
async def members(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Members]:
    made = Members(tmp_path, getattr(request, "param", ()))
    yield made
    for member in made.all:
        member.stop()


async def test_a_member_whose_data_is_gone_is_back_as_a_voter_with_what_was_written(members: Members) -> None:
    await members.begin_all()
    lost, *others = members.all
    before = members.voters(lost)
    lost.wipe()
    await members.write(others[0])
    async with asyncio.timeout(WITHIN_SECONDS):
        await members.begin(lost)
    await members.healthy(lost)
    after = members.voters(others[0])
    assert after.keys() == before.keys()
    assert after["member0"] != before["member0"]
    others[0].kill()
    await members.healthy(lost)
    assert lost.post("/v3/kv/range", {"key": KEY})["kvs"][0]["value"] == KEY


async def test_two_of_three_that_lost_their_data_do_not_start_over_beside_the_third(members: Members) -> None:
    """The third has what a majority wrote; who gives that up is a human."""
    await members.begin_all()
    survivor, *lost = members.all
    for member in lost:
        member.wipe()
    waiting = [asyncio.create_task(members.begin(member)) for member in lost]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(asyncio.gather(*waiting)), 5.0)
    survivor.wipe()
    async with asyncio.timeout(WITHIN_SECONDS):
        await asyncio.gather(*waiting, members.begin(survivor))
    await members.healthy(*members.all)
    assert members.voters(survivor).keys() == {"member0", "member1", "member2"}
