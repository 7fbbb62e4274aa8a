"""Patches of nodes, many at once, not too many a second.

A call that gets 429 waits as its Retry-After says (leadsman.kube.client); as at most `parallel` are under way, the
others wait with it.
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
    """allowed: asked before each patch; whoever no longer leads writes no more. For metrics: results by name.

    Where the API server does not answer, the rest is left for the next plan: a hundred deadlines would be minutes.
    """

    def __init__(
        self,
        client: ApiClient,
        nodes: NodeCache,
        rate: TokenBucket,
        allowed: Callable[[], bool],
        parallel: int = MAX_CONCURRENT_PATCHES,
    ):
        self.results: Counter[str] = Counter()
        self._unavailable = False
        self._problem = ProblemLog(
            _log, "controller cannot patch nodes; the next plan tries again", "controller patches nodes again"
        )
        self._client, self._nodes, self._rate, self._allowed = client, nodes, rate, allowed
        self._slots = asyncio.Semaphore(parallel)

    async def apply(self, patches: Sequence[NodePatch]) -> list[NodePatch]:
        """Those that succeeded. What did not is planned again from what then stands there."""
        self._unavailable = False
        done = await asyncio.gather(*(self._apply_one(patch) for patch in patches))
        return [patch for patch, good in zip(patches, done, strict=True) if good]

    async def _apply_one(self, patch: NodePatch) -> bool:
        async with self._slots:
            if not self._unavailable:
                await self._rate.wait()
            if self._unavailable or not self._allowed():
                return False
            result = await self._patch(patch)
        self.results[result] += 1
        return result == "done"

    async def _patch(self, patch: NodePatch) -> str:
        try:
            answer = await self._client.patch(
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
        self._nodes.record_patch(patch.node, answer)
        self._problem.clear()
        return "done"
