"""Which backup a pod has, as the extender reads it from a fake API server on a real socket."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.published.backups import BACKUPS, BackupMemory, RememberedBackup
from leadsman.sources.cluster.self_healing_follower import BackupFollower
from tests.testbed.scripted_api_server import FakeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until

PATH = "/api/v1/namespaces/leadsman/configmaps/leadsman-backups"
MEMORY = BackupMemory(
    1.0,
    {"uid-a": RememberedBackup("edge-2", "rs"), "uid-b": RememberedBackup("edge-3", "rs")},
    {"uid-b": "node edge-3 does not hold its room yet: memory missing", "uid-c": "3 delay to edge-1 over 25 ms"},
)


def publish(api: FakeApiServer, data: bytes) -> None:
    api.put(PATH, {"metadata": {}, "binaryData": {"backups.json.gz": b64encode(data).decode()}})


@asynccontextmanager
async def following(until: "Until") -> AsyncIterator[tuple[FakeApiServer, BackupFollower]]:
    """A follower of an API server on which MEMORY is published."""
    async with FakeApiServer() as api, ApiClient(ApiAccess(api.url), deadline_seconds=2.0) as client:
        publish(api, BACKUPS.encode(MEMORY))
        one = BackupFollower(client, "leadsman")
        task = asyncio.create_task(one.reflector.run())
        try:
            await until(lambda: one.reflector.loaded.is_set())
            yield api, one
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_each_pod_has_its_backup_or_the_reason_why_not(until: "Until") -> None:
    async with following(until) as (_, one):
        assert [str(one.of_pod(uid)) for uid in ("uid-a", "uid-b", "uid-c")] == [
            "covered by node edge-2",
            "not covered by node edge-3 yet: node edge-3 does not hold its room yet: memory missing",
            "uncovered: 3 delay to edge-1 over 25 ms",
        ]
        assert one.of_pod("uid-of-another") is None


async def test_what_cannot_be_read_leaves_what_was_read_before(until: "Until") -> None:
    async with following(until) as (api, one):
        assert one.of_pod("uid-a") is not None
        publish(api, b"no gzip")
        await until(lambda: one.reflector.current and one._published == b64encode(b"no gzip").decode())
        assert str(one.of_pod("uid-a")) == "covered by node edge-2"
