"""The arguments of a request, each decoded once: kube-scheduler sends the same bytes to prioritize when filter refused
nothing, and offers mostly the same nodes for one pod after the other."""

from extender import wire
from extender.wire import ExtenderArgs
from leadsman.decision.model import CandidateNodes
from leadsman.runtime.lru import LruCache

CACHED_LISTS = 4
"""Kept of each of two generations, some 0.4 MB each at 5,000 nodes."""

MAX_CACHED_BYTES = 1 << 20
"""Of a list of names or a body; a body of 5,000 names has 67 KB."""


class CachedArgsReader:
    """wire.read_args with the same answers and errors. The last body's arguments are the same object again, and so is a
    list of names met before."""

    def __init__(self) -> None:
        self._lists: LruCache[bytes, CandidateNodes] = LruCache(CACHED_LISTS)
        self._last: tuple[bytes | bytearray, ExtenderArgs] | None = None

    def read_args(self, body: bytes | bytearray) -> ExtenderArgs:
        """BadRequest. `body` is not altered afterwards."""
        if self._last and self._last[0] == body:
            return self._last[1]
        args = wire.read_args(body, self._read_names)
        self._last = (body, args) if len(body) <= MAX_CACHED_BYTES else None
        return args

    def _read_names(self, listed: bytes) -> CandidateNodes:
        names = self._lists.get(listed)
        if names is None:
            names = wire.read_node_names(listed)
            if len(listed) <= MAX_CACHED_BYTES:
                self._lists.put(listed, names)
        return names
