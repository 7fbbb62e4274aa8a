"""Patches nodes, many at once, at a limited rate.

A call that gets 429 waits as its Retry-After says (leadsman.kube.client). At most `max_concurrent` calls are under way,
so the others wait with it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from controller.node_cache import NodeCache
from controller.refused_changes import RefusedChanges
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, InvalidRequest, NotFound, NotLeader, Unavailable
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.resources import NODES
from leadsman.planning.labels.model import NodePatch
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

_refusals_log = logging.getLogger(f"{__name__}.refusals")
_refusals_log.addFilter(LogLimit())

MAX_CONCURRENT_PATCHES = 16


class NodePatcher:
    """Applies patches.

    is_leader: called before each patch; a replica that lost its lead writes no more.
    rate: of patches.
    results: done, gone, conflict, refused, not_leader or failed → patches.

    When the API server does not answer, the rest is left for the next plan: a hundred deadlines would take minutes.
    A patch that it refuses is applied policy by policy, so that one policy's label does not keep back another's; what
    it refuses then is in `refused` until it is due again.
    """

    def __init__(
        self,
        client: ApiClient,
        nodes: NodeCache,
        rate: TokenBucket,
        is_leader: Callable[[], bool],
        max_concurrent: int = MAX_CONCURRENT_PATCHES,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.results: Counter[str] = Counter()
        self._unavailable = False
        self.refused = RefusedChanges(clock)
        self._problem = ProblemLog(
            _log, "controller cannot patch nodes; the next plan tries again", "controller patches nodes again"
        )
        self._client, self._nodes, self._rate, self._is_leader = client, nodes, rate, is_leader
        self._slots = asyncio.Semaphore(max_concurrent)

    async def apply(self, patches: Sequence[NodePatch]) -> list[NodePatch]:
        """Applies the patches and returns what succeeded. The next plan repeats the others if still needed."""
        self._unavailable = False
        succeeded = await asyncio.gather(*(self._apply_one(patch) for patch in patches))
        return [part for parts in succeeded for part in parts]

    async def _apply_one(self, patch: NodePatch) -> list[NodePatch]:
        """What succeeded: the patch, or those of its policies that the API server takes."""
        async with self._slots:
            result, _ = await self._try(patch)
            if result == "refused" and len(patch.policies) > 1:
                return await self._apply_by_policy(patch)
        return [patch] if result == "done" else []

    async def _apply_by_policy(self, patch: NodePatch) -> list[NodePatch]:
        succeeded, owned, version = [], patch.owned_before, patch.resource_version
        for policy in patch.policies:
            part = patch.of_policy(policy, owned, version)
            result, response = await self._try(part)
            if response is not None:
                succeeded.append(part)
                owned, version = part.owned, version and response.metadata.resource_version
            elif result != "refused":
                break
        return succeeded

    async def _try(self, patch: NodePatch) -> tuple[str, PartialObjectMetadata | None]:
        """The result, and the node as it is then if that is "done"."""
        if not self._unavailable:
            await self._rate.wait()
        if self._unavailable or not self._is_leader():
            return "not_leader", None
        result, response = await self._patch(patch)
        self.results[result] += 1
        return result, response

    async def _patch(self, patch: NodePatch) -> tuple[str, PartialObjectMetadata | None]:
        try:
            response = await self._client.patch(
                NODES.path("", patch.node), msgspec.Raw(patch.body()), kind=PartialObjectMetadata
            )
        except NotFound:
            return "gone", None
        except Conflict:
            return "conflict", None
        except NotLeader:
            return "not_leader", None
        except InvalidRequest as error:
            self._report_refusal(patch, error)
            return "refused", None
        except ApiError as error:
            self._unavailable = isinstance(error, Unavailable)
            self._problem.report(error)
            return "failed", None
        self._nodes.record_patch(patch.node, response)
        for policy in patch.policies:
            self.refused.forget(patch.node, policy)
        self._problem.clear()
        return "done", response

    def _report_refusal(self, patch: NodePatch, error: ApiError) -> None:
        """Of several policies in one patch nobody knows whose fault it is."""
        for policy in patch.policies if len(patch.policies) == 1 else ():
            self.refused.record(patch.node, policy, error)
            _refusals_log.warning("node %s cannot be labelled as policy %s says: %s", patch.node, policy, error)
