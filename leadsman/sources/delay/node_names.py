"""Which node an address is, for a source that knows addresses only.

An agent in its node's network reports the node's own address. For other clusters a file says it, in JSON, of host IPs,
pod IPs or pod names: `{"10.0.0.7": "edge-1"}`. It counts before what agents report.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from leadsman.state.snapshot import Snapshot

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 4 << 20


class BadNodeNames(ValueError):
    """The file cannot be used. Says what is wrong with it."""


class NodeNames:
    """Call it for the names as of now. file: read anew each time, None: there is none.

    The first reading raises BadNodeNames; later a file that cannot be used is logged and the last good one stays.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], file: Path | None = None) -> None:
        self._snapshot, self._file = snapshot, file
        self._given = {} if file is None else read_names(file)
        self.problem = ""

    def __call__(self) -> Mapping[str, str]:
        if self._file is not None:
            self._reread(self._file)
        return reported_names(self._snapshot()) | self._given

    def _reread(self, file: Path) -> None:
        try:
            self._given, problem = read_names(file), ""
        except BadNodeNames as error:
            problem = str(error)
        if problem and problem != self.problem:
            log.error("names refused, those before stay: %s", problem)
        self.problem = problem


def reported_names(snapshot: Snapshot) -> dict[str, str]:
    """Address → node, by the agents' identities."""
    identities = ((state.identity, node) for node, state in snapshot.nodes.items())
    return {identity.address: node for identity, node in identities if identity}


def read_names(file: Path) -> dict[str, str]:
    try:
        content = file.read_bytes()[: MAX_FILE_BYTES + 1]
        if len(content) > MAX_FILE_BYTES:
            raise BadNodeNames(f"{file}: want at most {MAX_FILE_BYTES} bytes")
        return msgspec.json.decode(content, type=dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        raise BadNodeNames(f'{file}: {error}; want {{"address or pod": "node"}} in JSON') from error
