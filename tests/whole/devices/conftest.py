"""A cluster of one node with devices, and no kubelet."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from leadsman.testbed.etcd import Etcd
from tests.testbed.paper_cluster import CONTROLLER, EXTENDER
from tests.whole.conftest import Start
from tests.whole.devices.device_cluster import DeviceCluster, ScheduledCluster


@pytest.fixture
def scheduled(start: Start, etcd: Etcd, kubernetes_binaries: Path, tmp_path: Path) -> Iterator[ScheduledCluster]:
    with DeviceCluster(kubernetes_binaries, tmp_path, EXTENDER, CONTROLLER) as cluster, ExitStack() as stack:
        cluster.grant_rights()
        yield ScheduledCluster(stack, start, etcd, cluster)
