"""Follows the Leases that kubelets renew in kube-node-lease, and reads single ones directly to confirm the watch.

Each change is stamped by this process's own monotonic clock: what a kubelet writes as renewTime is its own clock's, and
is only compared with itself.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import NodeLease
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import LEASES
from leadsman.planning.failover.model import LeaseView
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

NAMESPACE = "kube-node-lease"

MAX_READS_AT_ONCE = 16
_SILENCE_SECONDS = 30.0
"""Kubelets renew every 10 s, so a watch without a byte for so long is dead."""
_LONGEST_PAUSE_SECONDS = 2.0


class NodeLeases:
    """The nodes' Leases. `run` its reflector as one task; call `confirm` in turn.

    rate: of direct reads.
    reads: result → direct reads.
    """

    def __init__(self, client: ApiClient, rate: TokenBucket, clock: Callable[[], float]) -> None:
        self.reads: Counter[str] = Counter()
        self._client, self._rate, self._clock = client, rate, clock
        self._views: dict[str, LeaseView] = {}
        self.reflector = Reflector(
            client,
            ListOptions(LEASES, namespace=NAMESPACE),
            NodeLease,
            on_changes=self._take,
            silence_seconds=_SILENCE_SECONDS,
            longest_pause_seconds=_LONGEST_PAUSE_SECONDS,
            clock=clock,
        )
        self._problem = ProblemLog(
            _log,
            "controller cannot read Leases of silent nodes; none of them counts as dead (may it get leases in "
            f"{NAMESPACE}?)",
            "controller reads Leases of silent nodes again",
        )

    @property
    def current(self) -> Mapping[str, LeaseView]:
        """Node → its Lease. A copy."""
        return self._views.copy()

    async def confirm(self, nodes: Iterable[str]) -> None:
        """Reads these nodes' Leases from the API server's storage, as many as the rate allows."""
        due = [node for node in nodes if node in self._views][:MAX_READS_AT_ONCE]
        await asyncio.gather(*(self._confirm(node) for node in due if self._rate.try_take()))

    async def _confirm(self, node: str) -> None:
        began = self._clock()
        try:
            lease = await self._client.get(LEASES.path(NAMESPACE, node), NodeLease)
        except NotFound:
            self.reads["gone"] += 1
            return
        except ApiError as error:
            self.reads["failed"] += 1
            self._problem.report(error)
            return
        self._problem.clear()
        view, known = self._views.get(node), self.reflector.get((NAMESPACE, node))
        if view is None or known is None or lease.spec.renew_time != known.spec.renew_time:
            self.reads["renewed"] += 1  # The watch is late: it brings the change, and stamps it.
        else:
            self.reads["unchanged"] += 1
            self._views[node] = structs.replace(view, confirmed_at=began)

    def _take(self, changes: Sequence[ObjectChange[NodeLease]]) -> None:
        now = self._clock()
        for change in changes:
            node, spec = change.object.metadata.name, change.object.spec
            if change.kind is ChangeType.DELETED:
                self._views.pop(node, None)
            elif change.old is None or change.old.spec.renew_time != spec.renew_time:
                self._views[node] = LeaseView(spec.lease_duration_seconds, now, is_new=change.old is None)
