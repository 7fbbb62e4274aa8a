"""What the three signals mean together, for a node that fell silent alone."""

from leadsman.planning.failover.model import NodeHealth, Truth, VerdictReason

_T, _F, _U, _ANY = {Truth.TRUE}, {Truth.FALSE}, {Truth.UNKNOWN}, set(Truth)
_NOT_TRUE = _F | _U

_Row = tuple[set[Truth], set[Truth], set[Truth], NodeHealth, VerdictReason]

_TABLE: tuple[_Row, ...] = (
    # peers, heartbeat, Lease
    (_T, _T, _T, NodeHealth.DEAD, VerdictReason.DEAD),
    (_U, _U, _U, NodeHealth.HEALTHY, VerdictReason.NO_EVIDENCE),
    (_NOT_TRUE, _NOT_TRUE, _NOT_TRUE, NodeHealth.HEALTHY, VerdictReason.REACHABLE),
    (_T, _ANY, _F, NodeHealth.SUSPECT, VerdictReason.DATA_PLANE_DOWN),
    (_T, _F, _ANY, NodeHealth.SUSPECT, VerdictReason.STILL_REPORTS),
    (_F, _T, _T, NodeHealth.SUSPECT, VerdictReason.CUT_FROM_CONTROL_PLANE),
    (_F, _T, _NOT_TRUE, NodeHealth.SUSPECT, VerdictReason.AGENT_SILENT),
    (_U, _T, _F, NodeHealth.SUSPECT, VerdictReason.AGENT_SILENT),
    (_F, _NOT_TRUE, _T, NodeHealth.SUSPECT, VerdictReason.KUBELET_SILENT),
    (_U, _F, _T, NodeHealth.SUSPECT, VerdictReason.KUBELET_SILENT),
    (_ANY, _ANY, _ANY, NodeHealth.SUSPECT, VerdictReason.INCOMPLETE),
)
"""The first row that fits holds."""


def of_signals(truths: tuple[Truth, Truth, Truth]) -> tuple[NodeHealth, VerdictReason]:
    """The meaning of the signals of peers, heartbeat and Lease."""
    peers, heartbeat, lease = truths
    return next(
        (state, reason)
        for of_peers, of_heartbeat, of_lease, state, reason in _TABLE
        if peers in of_peers and heartbeat in of_heartbeat and lease in of_lease
    )
