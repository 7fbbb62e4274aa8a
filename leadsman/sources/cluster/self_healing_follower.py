"""Follows what the controller publishes on self-healing, and the placeholders, for the extender: two narrow watches.

Without the ConfigMap nothing is refused. While the API server is away the last state stands: refusals stay, holds end
in their time, and explanations say how old the state is. A state that cannot be read leaves the one before in use.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace
from prometheus_client import Metric

from leadsman.decision.inputs import LastRoundTrips, RoomHold, SelfHealing
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import PLACEHOLDER_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import IdentifiedObject
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import CONFIG_MAPS, PODS
from leadsman.published.documents import BadDocument, ConfigMapObject
from leadsman.published.self_healing import BACKUPS, SELF_HEALING, BackupMemory, PodBackup, SelfHealingState
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge
from leadsman.sources.source import follow, run_all

log = logging.getLogger(__name__)


class SelfHealingFollower:
    """Keeps the view of self-healing up to date. `run` it as one task; readers take `current` and `last_round_trips`.

    namespace: of the ConfigMap.
    clock, unix_clock: monotonic seconds, as decisions have them, and Unix seconds, as the state has them.
    last_round_trips: dead or suspect node → its last delays; replaced, never altered.
    unreadable: versions of the state that could not be read.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock, self._unix_clock = clock, unix_clock
        self._view = SelfHealing()
        self.last_round_trips: Mapping[str, LastRoundTrips] = {}
        self.unreadable = 0
        published = ListOptions(CONFIG_MAPS, namespace, field_selector=f"metadata.name={SELF_HEALING.config_map}")
        self.state = follow(client, published, ConfigMapObject, self._state_changed, clock)
        labelled = ListOptions(PODS, PLACEHOLDER_NAMESPACE, label_selector=PLACEHOLDER_LABEL, metadata_only=True)
        self.placeholders = follow(client, labelled, IdentifiedObject, self._placeholders_changed, clock)
        self._problem = ProblemLog(
            log,
            f"cannot read ConfigMap {namespace}/{SELF_HEALING.config_map}; the state read before stays in use",
            f"ConfigMap {namespace}/{SELF_HEALING.config_map} is read again",
        )

    @property
    def current(self) -> SelfHealing:
        """Returns the newest view."""
        read_at = self.state.last_response_at if self.state.loaded.is_set() else None
        if self._view.read_at != read_at:
            self._view = replace(self._view, read_at=read_at)
        return self._view

    async def run(self) -> None:
        """Follows until cancelled."""
        await run_all((self.state, self.placeholders))

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        view, now = self.current, self._clock()
        refused = "Dead and suspect nodes that pods with delay bounds are kept off."
        yield gauge("leadsman_extender_refused_nodes", refused, len(view.refused))
        held = sum(len(view.held_until(node, now)) for node in view.holds)
        yield gauge("leadsman_extender_holds", "Owners for whose pods room on a node is held now.", held)
        yield gauge("leadsman_extender_placeholders", "Placeholders that preempt knows.", len(view.placeholders))
        unreadable = "Versions of the ConfigMap leadsman-self-healing that could not be read."
        yield counter("leadsman_extender_unreadable_states", unreadable, self.unreadable)

    def _state_changed(self, changes: Sequence[ObjectChange[ConfigMapObject]]) -> None:
        change = changes[-1]
        try:
            gone = change.kind is ChangeType.DELETED
            state = SelfHealingState() if gone else SELF_HEALING.read(change.object)
            if state is None:
                raise BadDocument(f"it has no key {SELF_HEALING.key}")
        except BadDocument as error:
            self.unreadable += 1
            self._problem.report(error)
            return
        self._problem.clear()
        now, unix_now = self._clock(), self._unix_clock()
        self.last_round_trips = {
            node: LastRoundTrips(now - max(0.0, unix_now - last.measured_at), last.rtt_ms)
            for node, last in state.last_round_trips.items()
        }
        self._view = replace(
            self._view,
            refused=state.recovery.refused,
            holds=_holds(state, now),
            backup_owners={node: frozenset(owners) for node, owners in state.backup_owners.items()},
        )

    def _placeholders_changed(self, _: Sequence[ObjectChange[IdentifiedObject]]) -> None:
        uids = frozenset(pod.metadata.uid for pod in self.placeholders.current.values())
        self._view = replace(self._view, placeholders=uids)


def _holds(state: SelfHealingState, now: float) -> Mapping[str, tuple[RoomHold, ...]]:
    """A hold lasts from now as long as it was meant to when it was published: whose clock is wrong, nobody knows."""
    by_node: dict[str, list[RoomHold]] = defaultdict(list)
    for hold in state.recovery.holds:
        ends = now + hold.until - state.published_at
        by_node[hold.node].append(RoomHold(hold.owner_uid, ends, hold.only))
    return {node: tuple(holds) for node, holds in by_node.items()}


# Follows which backup each pod has, as the controller publishes it: for explanations only.
#
# What is published is kept as it came, compressed, and read when somebody asks: it says nothing to a decision.


class BackupFollower:
    """Follows the published backups. Its `reflector` runs as one task; `of_pod` may be asked from any thread.

    namespace: of the ConfigMap.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._read: tuple[ConfigMapObject | None, BackupMemory] = (None, BackupMemory())
        options = ListOptions(CONFIG_MAPS, namespace, field_selector=f"metadata.name={BACKUPS.config_map}")
        self.reflector = Reflector(client, options, ConfigMapObject)
        self._problem = ProblemLog(
            log,
            f"cannot read ConfigMap {namespace}/{BACKUPS.config_map}; explanations have the backups read before",
            f"ConfigMap {namespace}/{BACKUPS.config_map} is read again",
        )

    def of_pod(self, uid: str) -> PodBackup | None:
        """Returns the pod's backup, or why it has none; None: nothing is published about it."""
        published = next(iter(self.reflector.current.values()), None)
        read, known = self._read
        if published is not read:
            try:
                known = (BACKUPS.read(published) if published else None) or BackupMemory()
                self._problem.clear()
            except BadDocument as error:
                self._problem.report(error)
            self._read = published, known
        return known.of_pod(uid)
