"""A follower of all nodes in a process of its own."""

import asyncio
import time
from multiprocessing.connection import Connection

from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower


def follow(etcd_url: str, asks: Connection) -> None:
    """Runs until it is killed. Each message is answered with the seconds since the last change was applied."""
    asyncio.run(_follow(etcd_url, asks))


async def _follow(etcd_url: str, asks: Connection) -> None:
    follower = Follower(EtcdStore(EtcdAccess((etcd_url,))))

    def answer() -> None:
        asks.recv()
        asks.send(follower.age_seconds(time.monotonic()))

    asyncio.get_running_loop().add_reader(asks.fileno(), answer)
    await follower.run()
