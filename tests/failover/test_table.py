"""The quick rows of the table, at a rhythm 2.5 times as fast as installed.

`make failover-table` holds every row for its time.
"""

from pathlib import Path

import pytest

from leadsman.testbed import virtual_network
from tests.failover import table
from tests.failover.real_cluster import QUICK, RealCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        virtual_network.why_unavailable() is not None,
        reason=f"no network namespaces here: {virtual_network.why_unavailable()}",
    ),
]

SLOW_MACHINE_SECONDS = 6.0


def test_faults_make_no_node_dead_and_a_death_does(tmp_path: Path) -> None:
    with RealCluster(tmp_path, QUICK) as cluster:
        rows = table.rows(cluster, quick=True)
    assert [(row.fault, row.deaths) for row in rows if row.deaths != row.expected] == []
    *faults, death = rows
    assert len(faults) >= 4
    assert death.held_seconds <= QUICK.detected_within + SLOW_MACHINE_SECONDS, table.shown(rows)
