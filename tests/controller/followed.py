"""A cluster that is followed while a test runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leadsman.sources.cluster.cluster_follower import ClusterFollower
    from tests.conftest import Until


@asynccontextmanager
async def followed(follower: "ClusterFollower", until: "Until") -> AsyncIterator[None]:
    """Follows from entry, which waits for the first cluster, to exit."""
    task = asyncio.create_task(follower.run())
    try:
        await until(lambda: follower.current is not None)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
