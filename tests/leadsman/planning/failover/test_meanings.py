"""All 27 combinations of the three signals."""

import pytest

from leadsman.planning.failover import verdicts
from leadsman.planning.failover.node_verdict import NodeHealth, Truth, VerdictReason

SIGN = {"T": Truth.TRUE, "F": Truth.FALSE, "?": Truth.UNKNOWN}

TABLE = """
peers heartbeat lease   state    reason
T     T         T       dead     NodeDead
T     T         F       suspect  LeaseRenewedDataPlaneDown
T     T         ?       suspect  EvidenceIncomplete
T     F         T       suspect  PeersLostNodeThatReports
T     F         F       suspect  LeaseRenewedDataPlaneDown
T     F         ?       suspect  PeersLostNodeThatReports
T     ?         T       suspect  EvidenceIncomplete
T     ?         F       suspect  LeaseRenewedDataPlaneDown
T     ?         ?       suspect  EvidenceIncomplete
F     T         T       suspect  PeersHearNodeThatReportsNothing
F     T         F       suspect  AgentSilent
F     T         ?       suspect  AgentSilent
F     F         T       suspect  KubeletSilent
F     F         F       healthy  NodeReachable
F     F         ?       healthy  NodeReachable
F     ?         T       suspect  KubeletSilent
F     ?         F       healthy  NodeReachable
F     ?         ?       healthy  NodeReachable
?     T         T       suspect  EvidenceIncomplete
?     T         F       suspect  AgentSilent
?     T         ?       suspect  EvidenceIncomplete
?     F         T       suspect  KubeletSilent
?     F         F       healthy  NodeReachable
?     F         ?       healthy  NodeReachable
?     ?         T       suspect  EvidenceIncomplete
?     ?         F       healthy  NodeReachable
?     ?         ?       healthy  NoEvidence
"""
ROWS = [tuple(line.split()) for line in TABLE.strip().splitlines()[1:]]


@pytest.mark.parametrize(("peers", "heartbeat", "lease", "state", "reason"), ROWS)
def test_each_combination_has_its_meaning(peers: str, heartbeat: str, lease: str, state: str, reason: str) -> None:
    meaning = verdicts.of_signals((SIGN[peers], SIGN[heartbeat], SIGN[lease]))
    assert meaning == (NodeHealth(state), VerdictReason(reason))
