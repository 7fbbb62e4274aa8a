"""A real etcd takes the configuration that the manifest's init container writes, and does what it is for."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import yaml

from leadsman.cli.certificates import MEMBER_NAMES
from leadsman.etcd.member_start import EtcdFlags, InitialCluster, MemberStart
from leadsman.state.etcd_http import EtcdAccess
from leadsman.testbed.etcd import Etcd

if TYPE_CHECKING:
    from tests.daemonset.conftest import Find, Render

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
def initial(find: "Find") -> dict[str, Any]:
    (container,) = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]["initContainers"]
    return container


@pytest.fixture
def etcd(initial: dict[str, Any], tmp_path: Path) -> Iterator[Etcd]:
    flags = initial["args"][initial["args"].index("--") + 1 :]
    kept = [flag for flag in flags if flag.partition("=")[0] not in OF_THE_PLACE]
    assert len(flags) - len(kept) == len(OF_THE_PLACE)
    member = Etcd(tmp_path / "data", flags=kept)
    start = MemberStart(EtcdFlags.parse(member.command_flags()), EtcdAccess((member.client_url,)))
    member.config_file = tmp_path / "etcd.yaml"
    asyncio.run(start.write_config(member.config_file))
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
def test_history_is_compacted_after_minutes(initial: dict[str, Any]) -> None:
    assert {"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m"} <= set(initial["args"])


@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_the_volume_holds_more_than_the_quota(find: "Find", initial: dict[str, Any]) -> None:
    spec = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]
    (volume,) = spec["volumes"]
    assert volume["emptyDir"]["sizeLimit"] == "4Gi"
    assert "--quota-backend-bytes=2147483648" in initial["args"]


@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_etcd_reads_the_file_that_its_init_container_writes(find: "Find", initial: dict[str, Any]) -> None:
    spec = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (written,) = [a.partition("=")[2] for a in initial["args"] if a.startswith("--config=")]
    assert container["args"] == [f"--config-file={written}"]
    assert initial["volumeMounts"] == container["volumeMounts"]
    assert Path(written).is_relative_to(container["volumeMounts"][0]["mountPath"])


@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_no_two_members_share_a_node(find: "Find") -> None:
    spec = find("StatefulSet", "leadsman-etcd")["spec"]
    (rule,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert rule["labelSelector"] == spec["selector"]


@pytest.mark.integration
@pytest.mark.parametrize("build_name", ["etcd-locked", "everything"], indirect=True)
def test_a_locked_member_takes_tls_alone_and_shows_its_peers_the_certificate_of_its_names(
    initial: dict[str, Any],
) -> None:
    args = [argument.replace("$(POD_NAME)", "leadsman-etcd-0") for argument in initial["args"]]
    flags = EtcdFlags.parse(args[args.index("--") + 1 :])
    urls = {name: value for name, value in flags.values.items() if name.endswith("-urls")}
    assert {name for name, value in urls.items() if not value.startswith("https://")} == {"listen-metrics-urls"}
    assert flags.values["peer-client-cert-auth"] == "true"
    names = {urlsplit(url).hostname for url in flags.members.values()}
    assert names < set(MEMBER_NAMES)
    config = yaml.safe_load(flags.config_file(InitialCluster(flags.members, is_new=True)))
    assert config["peer-transport-security"] == {
        "cert-file": "/etc/leadsman-tls/tls.crt",
        "key-file": "/etc/leadsman-tls/tls.key",
        "trusted-ca-file": "/etc/leadsman-tls/ca.crt",
        "client-cert-auth": True,
    }


@pytest.mark.integration
@pytest.mark.parametrize("build_name", ["etcd-locked", "everything"], indirect=True)
def test_a_locked_member_keeps_the_flags_of_an_open_one(initial: dict[str, Any], render: "Render") -> None:
    (base,) = [o for o in render("base") if (o["kind"], o["metadata"]["name"]) == ("StatefulSet", "leadsman-etcd")]
    (without,) = base["spec"]["template"]["spec"]["initContainers"]
    assert {arg.replace("http://", "https://") for arg in without["args"] if "metrics" not in arg} <= {*initial["args"]}
