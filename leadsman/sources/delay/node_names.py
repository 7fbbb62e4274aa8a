"""Maps addresses to nodes, for a delay source that knows addresses only.

An agent in its node's network reports the node's own address. For other clusters a JSON file maps host IPs, pod IPs or
pod names: `{"10.0.0.7": "edge-1"}`. The file counts before what agents report.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import WatchedFiles
from leadsman.state.snapshot import Snapshot

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 4 << 20


class NodeNames:
    """Call it for the newest names: address or pod → node.

    file: read again when it has changed; None: there is none.
    problem: why the file as it is now is not in use.

    The first reading raises leadsman.runtime.watched_files.UnusableFile.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], file: Path | None = None) -> None:
        self._snapshot = snapshot
        self.problem = ProblemLog(
            log,
            "cannot use the file of --goldpinger-names; its last good content stays in use",
            "the file of --goldpinger-names is valid again",
            logging.ERROR,
        )
        self._file = WatchedFiles([file], _parse, self.problem, MAX_FILE_BYTES) if file else None

    def __call__(self) -> Mapping[str, str]:
        names = reported_names(self._snapshot())
        if self._file is None:
            return names
        self._file.poll()
        return names | self._file.current


def reported_names(snapshot: Snapshot) -> dict[str, str]:
    """Address → node, by the agents' identities."""
    identities = ((state.identity, node) for node, state in snapshot.nodes.items())
    return {identity.address: node for identity, node in identities if identity}


def _parse(contents: Sequence[bytes]) -> dict[str, str]:
    try:
        return msgspec.json.decode(contents[0], type=dict[str, str])
    except UNREADABLE as error:
        raise ValueError(f'{explain(error)}; must be {{"address or pod": "node"}} in JSON') from error
