"""The arguments of a request, each decoded once: kube-scheduler sends the same pod to filter and to prioritize, the
same bytes when filter refused nothing, and offers mostly the same nodes for one pod after the other.

It offers them in another order for many pods, as its goroutines find them. What is computed for a list of nodes is
kept by the list, so the same nodes in another order are answered in the order met first: kube-scheduler chooses among
the best at random, whatever their order (docs/decisions/0061).
"""

from collections.abc import Mapping, Sequence

from msgspec import structs

from extender.wire.candidates import decode_names
from extender.wire.pod import read_pod
from extender.wire.verbs import ExtenderArgs, read_args
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.runtime.lru import LruCache

CACHED_LISTS = 4
"""Kept of each of two generations, some 0.4 MB each at 5,000 nodes."""

CACHED_PODS = 4
"""Kept of each of two generations: those between their filter and their prioritize call."""

MAX_CACHED_BYTES = 1 << 20
"""Of a list of names or a body; a body of 5,000 names has 67 KB."""

MAX_CACHED_POD_BYTES = 64 << 10
"""A pod has some 3 KB."""


class CachedArgsReader:
    """read_args with the same answers and errors, but for the order of names. The last body's arguments are the same
    object again, and so is a list of names met before, in any order."""

    def __init__(self) -> None:
        self._lists: LruCache[bytes, CandidateNodes] = LruCache(CACHED_LISTS)
        self._nodes: LruCache[frozenset[str], CandidateNodes] = LruCache(CACHED_LISTS)
        self._pods: LruCache[bytes, PodInfo] = LruCache(CACHED_PODS)
        self._last: tuple[bytes | bytearray, ExtenderArgs] | None = None

    def read_args(self, body: bytes | bytearray) -> ExtenderArgs:
        """BadRequest. `body` is not altered afterwards."""
        if self._last and self._last[0] == body:
            return self._last[1]
        args = read_args(body, self._read_names, self._read_pod)
        self._last = (body, args) if len(body) <= MAX_CACHED_BYTES else None
        return args

    def read_node_args(self, body: bytes, nodes: Mapping[str, bytes]) -> ExtenderArgs:
        """The arguments of a body whose nodes were read while it came. BadRequest. body: with an empty list of them."""
        args = read_args(body, self._read_names, self._read_pod)
        return structs.replace(args, node_names=self._in_order_met_first(CandidateNodes(nodes)), raw_nodes=nodes)

    def _read_names(self, listed: bytes) -> CandidateNodes:
        names = self._lists.get(listed)
        if names is None:
            decoded = decode_names(listed)
            if len(listed) > MAX_CACHED_BYTES:
                return CandidateNodes.of(decoded)
            names = self._in_order_met_first(decoded)
            self._lists.put(listed, names)
        return names

    def _in_order_met_first(self, names: Sequence[str]) -> CandidateNodes:
        nodes = frozenset(names)
        met_first = self._nodes.get(nodes)
        if met_first is None:
            met_first = CandidateNodes.of(names)
            self._nodes.put(nodes, met_first)
        return met_first

    def _read_pod(self, raw: bytes) -> PodInfo:
        pod = self._pods.get(raw)
        if pod is None:
            pod = read_pod(raw)
            if len(raw) <= MAX_CACHED_POD_BYTES:
                self._pods.put(raw, pod)
        return pod
