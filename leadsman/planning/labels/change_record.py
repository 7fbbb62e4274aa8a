"""Reads and writes when labels of a node changed lately: an annotation with label key → unix seconds.

The leader remembers it too. The annotation is for the next leader, which would allow the same changes once more.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from leadsman.kube.names import CHANGES_ANNOTATION
from leadsman.planning.labels.ownership import NodeView
from leadsman.runtime.decode_errors import UNREADABLE

MAX_LABELS = 64
"""Of a node, in its record: some 10 KB at most."""

MAX_TIMES = 16
"""Of a label, the newest; more than the limit of an hour lets through."""

_decode = msgspec.json.Decoder(dict[str, list[float]]).decode


def parse_changes(node: NodeView, wall_now: float) -> Iterator[tuple[str, Sequence[float]]]:
    """Label key → how many seconds ago it changed, each time; the label may be gone by now. wall_now: unix seconds.

    A time to come, from a clock that went wrong, counts as now. A record that cannot be read says nothing: it only
    holds changes back.
    """
    try:
        recorded = _decode(node.annotations.get(CHANGES_ANNOTATION, "{}"))
    except UNREADABLE:
        return
    for key, times in recorded.items():
        yield key, [max(0.0, wall_now - at) for at in times[-MAX_TIMES:]]


def format_changes(changed_at: Mapping[str, Sequence[float]]) -> str | None:
    """The annotation's value; None: nothing changed. changed_at: label key → unix seconds.

    Of more than MAX_LABELS, those that changed most: they are the ones to hold back.
    """
    by_changes = sorted(changed_at, key=lambda key: (-len(changed_at[key]), key))
    times = {
        key: [round(at) for at in changed_at[key][-MAX_TIMES:]]
        for key in sorted(by_changes[:MAX_LABELS])
        if changed_at[key]
    }
    return msgspec.json.encode(times).decode() if times else None
