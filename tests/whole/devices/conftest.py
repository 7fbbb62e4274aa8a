"""A cluster of one node with devices, and no kubelet."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leadsman.testbed.etcd import Etcd
from tests.testbed.kube_apiserver import KubeApiServer
from tests.whole.devices.device_cluster import DeviceCluster
from tests.whole.devices.scheduled_cluster import CONTROLLER, EXTENDER, ScheduledCluster

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until


@pytest.fixture
def scheduled(
    start: "Start", until: "Until", etcd: Etcd, kubernetes_binaries: Path, tmp_path: Path
) -> Iterator[ScheduledCluster]:
    accounts = {EXTENDER: (), CONTROLLER: ()}
    with ExitStack() as stack:
        api = stack.enter_context(KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users=accounts))
        stack.callback(api.kill)  # a stop would wait for the watches of those that still follow it
        cluster = DeviceCluster(api)
        cluster.grant_rights()
        yield ScheduledCluster(stack, start, until, etcd, cluster, kubernetes_binaries)
