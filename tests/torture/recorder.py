"""Writes down what the cluster does: pushes to etcd, the extenders' views, scrapes, processes that ended."""

import asyncio
import json
import time
from contextlib import aclosing
from typing import Any

import msgspec

from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Compacted, Deleted, Store, StoredItem, StoreError, Updated
from tests.torture.cluster import Cluster
from tests.torture.log import Ended, Pushed, Scraped, Stalled, Viewed, ViewedNode
from tests.torture.pushes import REWARD_KIND
from tests.torture.shape import EXTENDERS, NODES

VIEW_SECONDS, SCRAPE_SECONDS, EXIT_SECONDS = 0.5, 2.0, 0.25
NO_ANSWER_SECONDS = 5.0
LOOK_SECONDS, STALL_SECONDS = 0.1, 0.25


class Recorder:
    """Run `loops` as tasks.

    last_push: node → when its heartbeat was last seen to change. present: nodes that have an identity in the store.
    views: extender → its last view.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._log = cluster, cluster.log
        self.last_push: dict[str, float] = {}
        self.present: set[str] = set()
        self._recorded: dict[str, tuple[int, int]] = {}
        self.views: dict[str, Viewed] = {}
        self._resume = 1

    def loops(self) -> dict[str, Any]:
        views = {f"view {name}": self._watch_view(name) for name in EXTENDERS}
        scrapes = {f"scrape {name}": self._scrape(name) for name in self._cluster.processes}
        others = {"etcd": self._watch_etcd(), "exits": self._watch_exits(), "itself": self._watch_itself()}
        return others | views | scrapes

    async def _watch_etcd(self) -> None:
        store = EtcdStore(EtcdAccess(tuple(self._cluster.etcd_urls()), call_timeout_seconds=1.0), silence_seconds=2.0)
        try:
            while True:
                try:
                    await self._follow(store)
                except Compacted:
                    await self.list_all(store)
                except StoreError:
                    await asyncio.sleep(0.1)
        finally:
            await store.close()

    async def _follow(self, store: EtcdStore) -> None:
        async with aclosing(store.watch(keys.NODES_PREFIX, self._resume)) as batches:
            async for batch in batches:
                for change in batch.changes:
                    self._record(change)
                self._resume = batch.resume_revision

    async def list_all(self, store: Store) -> None:
        """Another store, or our revision was compacted: what it holds now, then the changes."""
        try:
            listing = await store.read_prefix(keys.NODES_PREFIX)
        except StoreError:
            return
        if listing.revision < self._resume - 1:
            self._cluster.era += 1
        self.present.clear()
        for item in listing.items:
            self._record(item)
        self._resume = listing.revision + 1

    def _record(self, change: StoredItem | Updated | Deleted) -> None:
        node, _, kind = change.key.removeprefix(keys.NODES_PREFIX).partition("/")
        now, value = time.monotonic(), None if isinstance(change, Deleted) else _decoded(change.value)
        if kind not in ("identity", "heartbeat", "latency", "hardware", REWARD_KIND):
            return
        pushed = (self._cluster.era, change.mod_revision)
        if self._recorded.get(change.key) != pushed:  # Otherwise it is listed again as it was.
            self._recorded[change.key] = pushed
            self._log.append(Pushed(now, *pushed, node, kind, value))
            if kind == "heartbeat" and value is not None:
                self.last_push[node] = now
        if kind == "identity":
            (self.present.discard if value is None else self.present.add)(node)

    async def _watch_view(self, name: str) -> None:
        """What the extender's API has of the state."""
        page = msgspec.json.Decoder(_State)
        while True:
            url = f"{self._cluster.processes[name].api_url}/api/v1/state"
            status, body = await self._cluster.get(url, NO_ANSWER_SECONDS)
            if status == 200:
                state = page.decode(body)
                view = Viewed(time.monotonic(), name, state.revision, state.nodes)
                self.views[name] = view
                self._log.append(view)
            await asyncio.sleep(VIEW_SECONDS)

    async def _scrape(self, name: str) -> None:
        while True:
            began = time.monotonic()
            url = f"{self._cluster.processes[name].ops_url}/metrics"
            status, _ = await self._cluster.get(url, NO_ANSWER_SECONDS)
            self._log.append(Scraped(began, name, time.monotonic() - began, status))
            await asyncio.sleep(SCRAPE_SECONDS)

    async def _watch_itself(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
            if (now := time.monotonic()) - began > LOOK_SECONDS + STALL_SECONDS:
                self._log.append(Stalled(began, now))

    async def _watch_exits(self) -> None:
        """Notes a process that ended by itself, and starts it again as kubelet would. etcd is not ours, and only
        started: before 3.5.5 it panics when a read-only transaction is cancelled (etcd-io/etcd#14110)."""
        while True:
            for member in self._cluster.etcd:
                if member.has_ended:
                    self._cluster.etcd_panics += 1
                    member.start(wait=False)
            for name, process in list(self._cluster.processes.items()):
                code = process.child.poll()
                if code is not None and not self._cluster.is_down(name):
                    self._log.append(Ended(time.monotonic(), name, code))
                    await self._cluster.restart(name)
            await asyncio.sleep(EXIT_SECONDS)

    # What rows wait for.

    def all_pushed_since(self, at: float, nodes: frozenset[str] = frozenset(NODES)) -> bool:
        return all(self.last_push.get(node, 0.0) > at for node in nodes)

    def sees_all_fresh(self, extender: str, since: float) -> bool:
        view = self.views.get(extender)
        fresh = {node for node, seen in view.nodes.items() if seen.status == "fresh"} if view else set[str]()
        return view is not None and view.at > since and fresh >= NODES.keys()

    def all_measured(self, since: float) -> bool:
        """Whether both extenders have every pair of nodes, by reports that came since: what a watch missed proves
        nothing, and a node that an older report keeps fresh may still go stale."""
        views = [self.views.get(extender) for extender in EXTENDERS]
        return all(view is not None and _is_measured(view, node, since) for view in views for node in NODES)

    def is_gone(self, node: str, since: float) -> bool:
        """From the store, and from both extenders' views."""
        views = [self.views.get(extender) for extender in EXTENDERS]
        return node not in self.present and all(view and view.at > since and node not in view.nodes for view in views)


class _State(msgspec.Struct):
    revision: int
    nodes: dict[str, ViewedNode]


def _is_measured(view: Viewed, node: str, since: float) -> bool:
    seen = view.nodes.get(node)
    if seen is None or seen.age_seconds is None or view.at - seen.age_seconds < since:
        return False
    return len([rtt for rtt in seen.peers_p50_ms.values() if rtt is not None]) >= len(NODES) - 1


def _decoded(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value[:200].decode(errors="replace")
