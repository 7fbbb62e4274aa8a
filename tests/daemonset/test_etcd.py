"""A real etcd takes the arguments in the manifest and does what they are for."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from leadsman.testbed.etcd import Etcd

if TYPE_CHECKING:
    from tests.daemonset.conftest import Find

OF_THE_PLACE = {
    "--name",
    "--data-dir",
    "--listen-client-urls",
    "--advertise-client-urls",
    "--listen-peer-urls",
    "--initial-advertise-peer-urls",
    "--initial-cluster",
    "--listen-metrics-urls",
}
"""Addresses and paths; the testbed gives its own for each."""


@pytest.fixture
def etcd(find: "Find", tmp_path: Path) -> Iterator[Etcd]:
    (container,) = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]["containers"]
    kept = [a for a in container["args"] if a.partition("=")[0] not in OF_THE_PLACE]
    assert len(container["args"]) - len(kept) == len(OF_THE_PLACE)
    member = Etcd(tmp_path / "data", flags=kept)
    yield member
    member.clean()


@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_it_starts_with_two_gibibytes_of_quota(etcd: Etcd) -> None:
    etcd.start()
    with urlopen(f"{etcd.metrics_url}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    (quota,) = [line for line in lines if line.startswith("etcd_server_quota_backend_bytes ")]
    assert float(quota.split()[1]) == 2 * 1024**3


@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_history_is_compacted_after_minutes(find: "Find") -> None:
    (container,) = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]["containers"]
    assert {"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m"} <= set(container["args"])


@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_the_volume_holds_more_than_the_quota(find: "Find") -> None:
    spec = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]
    (volume,) = spec["volumes"]
    assert volume["emptyDir"]["sizeLimit"] == "4Gi"
    assert "--quota-backend-bytes=2147483648" in spec["containers"][0]["args"]
