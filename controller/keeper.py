"""Defines keepers, each of which keeps one thing as it should be, such as labels or backups, and the loop that runs
them.

Each keeper has a turn once a second, in a task of its own, and acts only while this replica leads. A turn may be cut
short by the end of the lead: the client of the API server asks before the first byte of each write whether this replica
leads, so one that was frozen meanwhile writes nothing when it wakes.

What is the same for all keepers is here: whose turn it is and when, plans made beside the event loop, what came of
actions, what cannot be done now, Events, dry runs and metrics.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct, field, structs
from prometheus_client.core import Metric

from controller.settings import SelfHealingSettings
from leadsman.cluster.model import Cluster
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.view import Views
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotFound, NotLeader, Unavailable
from leadsman.kube.events import EventWriter
from leadsman.kube.objects import ObjectReference, PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import CONFIG_MAPS
from leadsman.planning.failover.node_verdict import NodeHealth, NodeVerdict
from leadsman.planning.situation import Judge, Scorer, Situation
from leadsman.published.documents import BadDocument, ConfigMapObject, Document
from leadsman.published.self_healing import SELF_HEALING, Hold, SelfHealingState
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.cluster.cluster_follower import ClusterFollower

T = TypeVar("T")
D = TypeVar("D", bound=Struct)

TURN_SECONDS = 1.0
"""A changed policy takes effect within this. A turn that finds nothing to do makes no call."""

FAULT_PAUSE_SECONDS = 10.0
"""A keeper with a fault, perhaps because of one odd object, tries again so much later, from nothing as a new leader."""

STALL_TIMEOUT_SECONDS = 120.0
"""A keeper whose turn lasts longer is stalled. That is more than a plan's patches take when the API server throttles
them."""


def steady_unix_clock(
    wall_clock: Callable[[], float] = time.time,
    elapsed: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
) -> Callable[[], float]:
    """Makes a clock of Unix seconds that never steps: those of now, and what has passed since. A wall clock that steps
    would end moves that are under way, and give a plan its minute's budget again."""
    offset = wall_clock() - elapsed()
    return lambda: offset + elapsed()


class Tools(Struct, frozen=True):
    """Holds what all keepers work with.

    client: writes only while this replica leads.
    inputs: of decisions, as the extender has them.
    with_reservations: the same inputs with what is reserved of devices for pods that are not bound yet.
    judges: makes the filter and the score of one plan, with the plugins of other packages.
    events: None: a dry run, which plans and writes nothing.
    namespace: Leadsman's own.
    clock, wall_clock: monotonic and Unix seconds; neither steps.
    """

    client: ApiClient
    is_leader: Callable[[], bool]
    inputs: Callable[[], DecisionInputs]
    events: EventWriter | None
    namespace: str = "leadsman"
    with_reservations: Callable[[DecisionInputs], Awaitable[DecisionInputs]] | None = None
    judges: Callable[[], tuple[Judge, Scorer]] = lambda: (filter_nodes, score_nodes)
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = field(default_factory=steady_unix_clock)

    @property
    def is_dry_run(self) -> bool:
        return self.events is None

    async def reserved_inputs(self) -> DecisionInputs:
        """Returns the inputs of now, as an extender has them for its next request."""
        inputs = self.inputs()
        return await self.with_reservations(inputs) if self.with_reservations else inputs

    async def situation(self, cluster: Cluster, views: Views) -> Situation:
        """Returns the cluster and all else that extenders decide by. views: the keeper's: it plans on a thread."""
        return Situation(cluster, structs.replace(await self.reserved_inputs(), views=views), *self.judges())

    def tell(
        self,
        about: ObjectReference,
        reason: str,
        note: str,
        action: str,
        *,
        warning: bool = False,
        name: str = "",
        api_version: str = "v1",
    ) -> None:
        """Queues an Event, which a dry run does not write. name, api_version: as EventWriter.record has them."""
        if self.events:
            self.events.record(about, reason, note, action, warning, api_version, name)


class Keeper(ABC):
    """Keeps one thing as it should be. A subclass says what by `keep`, and overrides others as needed.

    name: in logs and in /healthz.
    every_seconds: least time between two turns in which it acts; 0: in every turn.
    pause_ratio: the pause after a plan, as a multiple of the time that making it took.
    on_all_replicas: whether it acts on replicas that do not lead, too.
    problem_texts: what the log says when a turn fails, as ProblemLog has it.
    needs: it acts only when these have been listed.
    plan_seconds: how long making the last plan took.
    fault: what a turn raised that nobody foresaw.
    """

    name: ClassVar[str]
    every_seconds: ClassVar[float] = 0.0
    pause_ratio: ClassVar[float] = 0.0
    on_all_replicas: ClassVar[bool] = False
    problem_texts: ClassVar[tuple[str, str]] = (
        "controller cannot do its work; it tries again",
        "controller works again",
    )

    def __init__(self, tools: Tools, needs: Sequence[Reflector[Any]] = ()) -> None:
        self.tools, self.needs, self.plan_seconds = tools, needs, 0.0
        self._due_at = float("-inf")
        logger = logging.getLogger(type(self).__module__)
        self._problem = ProblemLog(logger, *self.problem_texts)
        begins = f"a fault of {self.name} ends its turn; the others go on, and it tries again: please report it"
        self.fault = ProblemLog(logger, begins, f"{self.name} works again", logging.ERROR)

    @abstractmethod
    async def keep(self) -> None:
        """Plans, and does what is due. A turn that raises ApiError or BadDocument is repeated later, and so is,
        as by a new leader, one that raises anything else."""

    def fail(self) -> None:  # noqa: B027 -- most keepers have nothing to forget
        """Forgets what may not be true since a turn failed: another replica may have written."""

    def forget(self) -> None:  # noqa: B027 -- most keepers have nothing to forget
        """Forgets everything, because another replica leads: what is known is old when this one does again."""

    def page(self) -> Mapping[str, Any]:
        """Returns what /plan shows of this keeper, as JSON values."""
        return {}

    def families(self) -> Iterator[Metric]:
        """Yields its metrics."""
        return iter(())

    def loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """Returns what runs beside this keeper's turns: name and loop of each task."""
        return {}

    async def turn(self) -> None:
        """Acts if it is time to, and forgets on a replica that does not lead."""
        if not (self.on_all_replicas or self.tools.is_leader()):
            self.forget()
        elif (now := self.tools.clock()) >= self._due_at and all(each.loaded.is_set() for each in self.needs):
            self._due_at = now + self.every_seconds
            try:
                await self.keep()
            except NotLeader:
                return
            except (ApiError, BadDocument) as error:
                self.fail()
                self._problem.report(error)
            except Exception as error:
                self.forget()
                self._due_at = self.tools.clock() + FAULT_PAUSE_SECONDS
                self.fault.report(error, traceback=True)
            else:
                self._problem.clear()
                self.fault.clear()

    def hurry(self) -> None:
        """Lets the keeper act in its next turn."""
        self._due_at = float("-inf")

    async def make_plan(self, plan: Callable[[], T]) -> T:
        """Returns what `plan` returns, made on a thread: a large cluster's takes seconds."""
        began = self.tools.clock()
        made = await run_in_daemon_thread(plan, self.name)
        self.plan_seconds = self.tools.clock() - began
        self._due_at = max(self._due_at, self.tools.clock() + self.plan_seconds * self.pause_ratio)
        return made


class KeeperLoops:
    """Gives each keeper its turns in its own loop, never two at once."""

    def __init__(self, keepers: Sequence[Keeper], clock: Callable[[], float] = time.monotonic) -> None:
        self._keepers, self._clock = keepers, clock
        self._began_at: dict[str, float] = {}

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Returns the name and loop of each task: the keepers' turns, and what they run beside."""
        turns = {keeper.name: self._repeat(keeper) for keeper in self._keepers}
        return turns | {name: loop for keeper in self._keepers for name, loop in keeper.loops().items()}

    def stalled(self) -> list[str]:
        """Returns the keepers whose turn began long ago and has not ended."""
        now = self._clock()
        return [name for name, at in self._began_at.items() if now - at > STALL_TIMEOUT_SECONDS]

    async def _repeat(self, keeper: Keeper) -> None:
        while True:
            self._began_at[keeper.name] = self._clock()
            await keeper.turn()
            await asyncio.sleep(TURN_SECONDS)


MOST_UNAVAILABLE = 3
"""After so many calls that the API server failed in one turn it counts as down. One may take ten seconds."""


class Actions:
    """Carries out the actions of plans, one after the other, and counts what came of each.

    results: (kind of action, result) → how often. result: done, gone, conflict, failed, or what the action returned.
    """

    def __init__(self, logger: logging.Logger, begins: str, ends: str) -> None:
        """begins, ends: as ProblemLog has them."""
        self.results: Counter[tuple[str, str]] = Counter()
        self._unavailable: list[Any] = []
        self._problem = ProblemLog(logger, begins, ends)

    async def carry_out(
        self, actions: Iterable[T], act: Callable[[T], Awaitable[str]], *, failed: bool = False
    ) -> None:
        """Has `act` do each action and return its result. What fails is left for the next plan, and so is all the rest
        when the API server is down or this replica no longer leads.

        failed: whether one failed before that is not tried again yet.
        """
        unavailable = list[Any]()
        for action in sorted(actions, key=self._unavailable.count):  # A webhook may fail one pod's for good.
            kind = type(action).__name__
            try:
                result = await act(action)
            except NotLeader:
                return
            except NotFound:
                result = "gone"
            except Conflict:
                result = "conflict"
            except ApiError as error:
                result, failed = "failed", True
                self._problem.report(error)
                unavailable += [action] * isinstance(error, Unavailable)
            self.results[kind, result] += 1
            if len(unavailable) == MOST_UNAVAILABLE:
                break
        self._unavailable = unavailable
        if not failed:
            self._problem.clear()


# Published documents stay in their ConfigMaps, so that the next leader goes on where this one stopped. A write carries
# the version that was read, so two leaders never overwrite each other.


class DocumentObject(Generic[D]):
    """Keeps one document in its ConfigMap, and reads it before it writes.

    uid: of the ConfigMap that was read or written last; "": there is none.
    """

    def __init__(self, client: ApiClient, namespace: str, document: Document[D]) -> None:
        self._client, self._namespace, self._document = client, namespace, document
        self._version = self.uid = ""

    async def read(self) -> D | None:
        """Returns the value; None: there is none yet. Raises BadDocument or ApiError."""
        path = CONFIG_MAPS.path(self._namespace, self._document.config_map)
        try:
            found = await self._client.get(path, ConfigMapObject)
        except NotFound:
            self._version = self.uid = ""
            return None
        self._version, self.uid = found.metadata.resource_version, found.metadata.uid
        return self._document.read(found)

    async def write(self, value: D) -> None:
        """Writes the value. DocumentTooLarge; raises Conflict when somebody else wrote since it was read; raises
        ApiError."""
        document = self._document
        metadata: dict[str, Any] = {
            "name": document.config_map,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/part-of": "leadsman"},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **document.fields(value)}
        if self._version:
            metadata["resourceVersion"] = self._version
            path = CONFIG_MAPS.path(self._namespace, document.config_map)
            written = await self._client.replace(path, body, ConfigMapObject)
        else:
            written = await self._client.create(CONFIG_MAPS.path(self._namespace), body, ConfigMapObject)
        self._version, self.uid = written.metadata.resource_version, written.metadata.uid


class Memory(Generic[D]):
    """Keeps a document for the next leader: it is read once, and written before what it says is done.

    value: None until it is read, and after a write that failed, because another replica may have written.
    """

    def __init__(self, tools: Tools, document: Document[D], empty: D) -> None:
        """empty: where there is none yet."""
        self.value: D | None = None
        self._object, self._empty = DocumentObject(tools.client, tools.namespace, document), empty
        self._is_dry_run = tools.is_dry_run

    async def read(self) -> D:
        """Returns the value. Raises BadDocument or ApiError."""
        if self.value is None:
            self.value = await self._object.read() or self._empty
        return self.value

    async def write(self, value: D) -> None:
        """Keeps the value; a dry run does so in this process only. Raises DocumentTooLarge, Conflict or ApiError."""
        try:
            if not self._is_dry_run:
                await self._object.write(value)
        except ApiError:
            self.forget()
            raise
        self.value = value

    def forget(self) -> None:
        """Forgets the value, so that it is read again."""
        self.value = None


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

    def record_patch(self, name: str, response: PartialObjectMetadata) -> None:
        """Remembers the API server's response to a patch of the version that `current` showed."""
        watched = self.watched.current.get(("", name))
        if watched is not None:
            self._patched[name] = (watched.metadata.resource_version, response)


MAX_PODS_SHOWN = 200

MOVE_HOLD_PREFIX = "move of "


class HealedCluster:
    """Holds the cluster that self-healing keeps, and what is published of it.

    verdicts: on every node, by name.
    published: the state that extenders follow; recovery writes it.
    """

    def __init__(
        self, tools: Tools, settings: SelfHealingSettings, verdicts: Callable[[], Mapping[str, NodeVerdict]]
    ) -> None:
        self.settings, self.verdicts = settings, verdicts
        self.follower = ClusterFollower(tools.client)
        self.published = Memory(tools, SELF_HEALING, SelfHealingState())

    @property
    def current(self) -> Cluster | None:
        """Returns the cluster; None while it is not listed."""
        return self.follower.current

    @property
    def unhealthy(self) -> frozenset[str]:
        """Returns dead and suspect nodes."""
        return frozenset(name for name, verdict in self.verdicts().items() if verdict.state is not NodeHealth.HEALTHY)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Returns the published room that must stay free; none before the state is read."""
        state = self.published.value
        return state.recovery.holds if state else ()

    def publishes_hold_of_move(self, pod_uid: str) -> bool:
        """Tells whether extenders can know of the room that the move of this pod keeps."""
        return any(hold.pod_uid == move_hold_uid(pod_uid) for hold in self.holds)


def move_hold_uid(pod_uid: str) -> str:
    """Returns the `pod_uid` of a move's holds, which tells them from those of a failover."""
    return f"{MOVE_HOLD_PREFIX}{pod_uid}"
