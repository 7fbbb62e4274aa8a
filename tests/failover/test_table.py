"""The quick rows of the table, at a rhythm 2.5 times as fast as installed.

`make failover-table` holds every row for its time.
"""

from pathlib import Path

import pytest

from leadsman.testbed import virtual_network
from tests.failover import table
from tests.failover.agent_cluster import QUICK, AgentCluster
from tests.failover.api_server_cluster import ApiServerCluster
from tests.failover.scripted_cluster import ScriptedCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        virtual_network.why_unavailable() is not None,
        reason=f"no network namespaces here: {virtual_network.why_unavailable()}",
    ),
]

SLOW_MACHINE_SECONDS = 6.0


def test_faults_make_no_node_dead_and_a_death_does(tmp_path: Path) -> None:
    assert_no_false_alarm(ScriptedCluster(tmp_path, QUICK))


@pytest.mark.slow
def test_on_a_real_api_server_faults_fail_no_node_over_and_a_death_does(
    tmp_path: Path, kubernetes_binaries: Path
) -> None:
    assert_no_false_alarm(ApiServerCluster(kubernetes_binaries, tmp_path, QUICK))


def assert_no_false_alarm(cluster: AgentCluster) -> None:
    with cluster:
        rows = table.rows(cluster, quick=True)
    assert table.wrong(rows, cluster.acts) == []
    *faults, death = rows
    assert len(faults) >= 4
    assert death.held_seconds <= QUICK.detected_within + SLOW_MACHINE_SECONDS, table.shown(rows)
