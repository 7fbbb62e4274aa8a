"""Patches nodes, many at once, at a limited rate.

A call that gets 429 waits as its Retry-After says (leadsman.kube.client). At most `max_concurrent` calls are under way,
so the others wait with it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from controller.node_cache import NodeCache
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotFound, Unavailable
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.resources import NODES
from leadsman.planning.labels.model import NodePatch
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

MAX_CONCURRENT_PATCHES = 16


class NodePatcher:
    """Applies patches.

    is_leader: called before each patch; a replica that lost its lead writes no more.
    rate: of patches.
    results: done, gone, conflict or failed → patches.

    When the API server does not answer, the rest is left for the next plan: a hundred deadlines would take minutes.
    """

    def __init__(
        self,
        client: ApiClient,
        nodes: NodeCache,
        rate: TokenBucket,
        is_leader: Callable[[], bool],
        max_concurrent: int = MAX_CONCURRENT_PATCHES,
    ):
        self.results: Counter[str] = Counter()
        self._unavailable = False
        self._problem = ProblemLog(
            _log, "controller cannot patch nodes; the next plan tries again", "controller patches nodes again"
        )
        self._client, self._nodes, self._rate, self._is_leader = client, nodes, rate, is_leader
        self._slots = asyncio.Semaphore(max_concurrent)

    async def apply(self, patches: Sequence[NodePatch]) -> list[NodePatch]:
        """Applies the patches and returns those that succeeded. The next plan repeats the others if still needed."""
        self._unavailable = False
        succeeded = await asyncio.gather(*(self._apply_one(patch) for patch in patches))
        return [patch for patch, done in zip(patches, succeeded, strict=True) if done]

    async def _apply_one(self, patch: NodePatch) -> bool:
        async with self._slots:
            if not self._unavailable:
                await self._rate.wait()
            if self._unavailable or not self._is_leader():
                return False
            result = await self._patch(patch)
        self.results[result] += 1
        return result == "done"

    async def _patch(self, patch: NodePatch) -> str:
        try:
            response = await self._client.patch(
                NODES.path("", patch.node), msgspec.Raw(patch.body()), kind=PartialObjectMetadata
            )
        except NotFound:
            return "gone"
        except Conflict:
            return "conflict"
        except ApiError as error:
            self._unavailable = isinstance(error, Unavailable)
            self._problem.report(error)
            return "failed"
        self._nodes.record_patch(patch.node, response)
        self._problem.clear()
        return "done"
