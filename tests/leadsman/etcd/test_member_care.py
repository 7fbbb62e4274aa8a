"""On real members: what heals without a hand. Each is started again by its file when it ends, as kubelet does."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError

import pytest

from leadsman.etcd import member_care
from leadsman.etcd.member_care import MemberCare
from leadsman.etcd.member_start import EtcdFlags
from leadsman.testbed.etcd import Etcd
from tests.leadsman.etcd.test_member_start import WITHIN_SECONDS, Members, members
from tests.testbed.background import running
from tests.testbed.etcd_members import lacks_hashkv
from tests.waiting import until

__all__ = ["members"]
pytestmark = pytest.mark.slow
KEY, MINE, OTHER = (base64.b64encode(word).decode() for word in (b"key", b"written-by-all", b"written-by-one"))


class Cared:
    """The care of each member. away: members that kubelet does not start."""

    def __init__(self, of: Members) -> None:
        self.of, self.away = of, set[str]()
        self.by_name = {
            member.name: MemberCare(
                EtcdFlags.parse(member.command_flags()), of.access, of.folder / f"{member.name}.yaml"
            )
            for member in of.all
        }

    async def kubelet(self) -> None:
        while True:
            for member in self.of.all:
                is_away = member.name in self.away or not (self.of.folder / f"{member.name}.yaml").exists()
                if member.has_ended and not is_away:
                    member.start(wait=False)
            await asyncio.sleep(0.05)


@pytest.fixture
async def cared(members: Members) -> AsyncIterator[Cared]:
    await members.begin_all()
    made = Cared(members)
    async with running(made.kubelet()):
        yield made
    for care in made.by_name.values():
        await care.close()


async def has(member: Etcd, value: str) -> None:
    """Waits until the member itself has the value."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            with suppress(OSError):
                found: Any = await asyncio.to_thread(member.post, "/v3/kv/range", {"key": KEY, "serializable": True})
                if [each["value"] for each in found.get("kvs", [])] == [value]:
                    return
            await asyncio.sleep(0.05)


async def test_a_member_whose_data_differ_is_replaced_by_what_the_others_have(cared: Cared) -> None:
    first, odd = cared.of.all[0], cared.of.all[2]
    if lacking := lacks_hashkv(first):
        pytest.skip(lacking)
    await asyncio.to_thread(first.post, "/v3/kv/put", {"key": KEY, "value": MINE})
    await has(odd, MINE)
    cared.away.add(odd.name)
    odd.stop()
    database = odd.data_dir / "member/snap/db"
    content, mine = database.read_bytes(), base64.b64decode(MINE)
    assert mine in content
    database.write_bytes(content.replace(mine, base64.b64decode(OTHER)))
    cared.away.clear()
    odd.start()
    await has(odd, OTHER)
    before = cared.of.voters(first)
    async with asyncio.timeout(WITHIN_SECONDS):
        while not cared.by_name[odd.name].differs:  # On a busy machine the members cannot be compared at once.
            for care in cared.by_name.values():
                await care.look(compare=True)
    assert [care.differs for care in cared.by_name.values()] == [False, False, True]
    # etcd refuses to remove a member before the others have been connected for 5 s.
    async with asyncio.timeout(WITHIN_SECONDS):
        while not cared.by_name[odd.name].replacements:
            await cared.by_name[odd.name].look(compare=True)
            await asyncio.sleep(0.5)
    await has(odd, MINE)
    after = cared.of.voters(first)
    assert {name for name in before if before[name] != after.get(name)} == {odd.name}
    assert [care.replacements for care in cared.by_name.values()] == [0, 0, 1]


async def test_a_member_that_cannot_start_from_its_data_is_replaced(
    cared: Cared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_care, "SILENT_SECONDS", 1.0)
    broken = cared.of.all[1]
    await asyncio.to_thread(broken.post, "/v3/kv/put", {"key": KEY, "value": MINE})
    broken.kill()
    for segment in (broken.data_dir / "member/wal").glob("*.wal"):
        segment.write_bytes(b"junk" * 1000)
    broken.start(wait=False)
    async with running(cared.by_name[broken.name].run()):
        await has(broken, MINE)


async def test_a_member_keeps_its_file_while_the_others_do_not_answer(
    members: Members, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else none could start again after an end of all."""
    monkeypatch.setattr(member_care, "SILENT_SECONDS", 0.0)
    (members.all[0].data_dir / "member/wal").mkdir(parents=True)
    config = members.folder / "member0.yaml"
    config.write_text("as it was")
    care = Cared(members).by_name["member0"]
    async with running(care.run()):
        await until(lambda: "cannot remove this one now" in caplog.text)
    await care.close()
    assert config.read_text() == "as it was"


@pytest.mark.parametrize("members", [["--quota-backend-bytes=4194304"]], indirect=True)
async def test_a_full_store_takes_writes_again_without_a_hand(cared: Cared) -> None:
    first = cared.of.all[0]
    large = base64.b64encode(bytes(200_000)).decode()

    async with asyncio.timeout(WITHIN_SECONDS):
        while "space exceeded" not in await refusal(first, large):
            pass
    of_one_that_is_gone = {"action": "ACTIVATE", "alarm": "NOSPACE", "memberID": "12345"}
    await asyncio.to_thread(first.post, "/v3/maintenance/alarm", of_one_that_is_gone)
    async with running(*(care.run() for care in cared.by_name.values())), asyncio.timeout(WITHIN_SECONDS):
        while await refusal(first, MINE):  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.05)


async def refusal(member: Etcd, value: str) -> str:
    """Writes, and returns why that failed; "": it did not. On a busy machine it may also be late."""
    try:
        await asyncio.to_thread(member.post, "/v3/kv/put", {"key": KEY, "value": value})
    except HTTPError as error:
        return error.read().decode()
    except OSError as error:
        return str(error) or type(error).__name__
    return ""
