import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from leadsman.runtime.daemon_thread import run_in_daemon_thread


def endless() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "endless"]


async def test_one_who_is_cancelled_leaves_and_the_process_can_end(
    until: Callable[..., Awaitable[None]],
) -> None:
    """The thread is a daemon, and its late result falls into nothing."""
    release = threading.Event()
    work = asyncio.create_task(run_in_daemon_thread(lambda: release.wait(5), "endless"))
    await until(endless)
    (thread,) = endless()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert thread.daemon
    release.set()
    thread.join(5)
    await asyncio.sleep(0)
