"""Events that are written once, whichever replica writes them."""

import asyncio
from typing import TYPE_CHECKING

from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.objects import ObjectReference
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.testbed.fake_api_server import FakeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until


async def test_of_one_name_one_is_written_and_none_is_missed(
    api: FakeApiServer, client: ApiClient, until: "Until"
) -> None:
    recorder = EventWriter(client, TokenBucket(1e6, 10), "one")
    task = asyncio.create_task(recorder.run())
    for name in ("p.1", "p.1", ""):
        recorder.record(ObjectReference("Pod", "ns", "p", "u"), "Why", "note", "Do", name=name)
    await until(lambda: api.verbs().count("create") == 3 and recorder.written == 2)
    assert recorder.dropped == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
