"""Holds the cluster's nodes and patches them. What the API server refuses is tried again at growing intervals."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import PolicyKey
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, InvalidRequest, NotFound, NotLeader, Unavailable
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES
from leadsman.planning.labels.label_plan import NodePatch, NodeView
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

_refusals_log = logging.getLogger(f"{__name__}.refusals")
_refusals_log.addFilter(LogLimit())

MAX_CONCURRENT_PATCHES = 16

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
"""The pause after a failed attempt begins with the first and doubles up to the longest."""

MAX_REFUSED = 20_000
"""Remembered; the oldest goes, and its change is tried at once. 4 MB."""

_LONGEST_REASON = 200


class NodeCache:
    """Holds the newest version of each node, from the watch or from the response to our patch.

    A patch that names a resourceVersion and succeeds makes the node's next version. So as long as the watch still shows
    the version that was patched, the patch's response is newer.
    """

    def __init__(self, watched: Reflector[PartialObjectMetadata]) -> None:
        """watched: all nodes, metadata only."""
        self.watched = watched
        self._patched: dict[str, tuple[str, PartialObjectMetadata]] = {}

    @property
    def current(self) -> Mapping[str, PartialObjectMetadata]:
        """Maps each node to its object."""
        nodes = {name: node for (_, name), node in self.watched.current.items()}
        for name, (patched_version, response) in list(self._patched.items()):
            watched = nodes.get(name)
            if watched is None or watched.metadata.resource_version != patched_version:
                del self._patched[name]
            else:
                nodes[name] = response
        return nodes

    def uid(self, name: str) -> str:
        """Returns the node's UID; "" when there is no such node."""
        node = self.watched.current.get(("", name))
        return node.metadata.uid if node is not None else ""

    def views(self) -> list[NodeView]:
        """Returns what planners use of each node."""
        nodes = ((name, node.metadata) for name, node in self.current.items())
        return [
            NodeView(name, meta.labels, meta.annotations, meta.resource_version, _excess(meta)) for name, meta in nodes
        ]

    def record_patch(self, name: str, response: PartialObjectMetadata) -> None:
        """Remembers the API server's response to a patch of the version that `current` showed."""
        watched = self.watched.current.get(("", name))
        if watched is not None:
            self._patched[name] = (watched.metadata.resource_version, response)


def _excess(metadata: ObjectMeta) -> str:
    """Any label may be somebody's that has the key of a mark; of the annotations only ours count."""
    labels = metadata.labels
    if labels.cut:
        return f"it has more than {labels.max_bytes:,} bytes of labels; remove those that nobody needs"
    return metadata.annotations.excess


class _Refused(Struct, frozen=True):
    reason: str
    pause_seconds: float
    due_at: float


class NodePatcher:
    """Applies patches, many at once, at a limited rate.

    client: writes only while this replica leads.
    rate: of patches.
    results: done, gone, conflict, refused, not_leader or failed → patches.

    A call that gets 429 waits as its Retry-After says, and the others wait with it. When the API server does not
    answer, or this replica does not lead any more, the rest is left for the next plan: a hundred deadlines would take
    minutes.
    A patch that it refuses is applied policy by policy, so that one policy's label does not keep back another's; what
    it refuses then is in `refused` until it is due again.
    """

    def __init__(
        self,
        client: ApiClient,
        nodes: NodeCache,
        rate: TokenBucket,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.results: Counter[str] = Counter()
        self._stopped = False
        self._refused: dict[tuple[str, PolicyKey], _Refused] = {}
        self._problem = ProblemLog(
            _log, "controller cannot patch nodes; the next plan tries again", "controller patches nodes again"
        )
        self._client, self._nodes, self._rate, self._clock = client, nodes, rate, clock
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_PATCHES)

    @property
    def refused(self) -> Mapping[tuple[str, PolicyKey], str]:
        """Maps node and policy to why its changes there are not due now."""
        now = self._clock()
        self._refused = {key: one for key, one in self._refused.items() if now < one.due_at + LONGEST_PAUSE_SECONDS}
        return {key: one.reason for key, one in self._refused.items() if now < one.due_at}

    async def apply(self, patches: Sequence[NodePatch]) -> list[NodePatch]:
        """Applies the patches and returns what succeeded. The next plan repeats the others if still needed."""
        self._stopped = False
        succeeded = await asyncio.gather(*(self._apply_one(patch) for patch in patches))
        return [part for parts in succeeded for part in parts]

    async def _apply_one(self, patch: NodePatch) -> list[NodePatch]:
        """Returns what succeeded: the patch, or those of its policies that the API server takes."""
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
        """Returns the result, and the node as it is then if that is "done"."""
        if not self._stopped:
            await self._rate.wait()
        if self._stopped:
            return "stopped", None
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
            self._stopped = True
            return "not_leader", None
        except InvalidRequest as error:
            self._report_refusal(patch, error)
            return "refused", None
        except ApiError as error:
            self._stopped = isinstance(error, Unavailable)
            self._problem.report(error)
            return "failed", None
        self._nodes.record_patch(patch.node, response)
        for policy in patch.policies:
            self._refused.pop((patch.node, policy), None)
        self._problem.clear()
        return "done", response

    def _report_refusal(self, patch: NodePatch, error: ApiError) -> None:
        """Reports a refused patch; with several policies in one, nobody knows whose fault it is."""
        if len(patch.policies) != 1:
            return
        key = patch.node, patch.policies[0]
        before = self._refused.pop(key, None)
        pause = min(2 * before.pause_seconds, LONGEST_PAUSE_SECONDS) if before else FIRST_PAUSE_SECONDS
        reason = f"refused, tried again every {pause:g} s or more: {error}"[:_LONGEST_REASON]
        self._refused[key] = _Refused(reason, pause, self._clock() + pause)
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        _refusals_log.warning("node %s cannot be labelled as policy %s says: %s", *key, error)
