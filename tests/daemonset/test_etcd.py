"""A real etcd takes the configuration that the manifest's init container writes, and does what it is for."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import yaml

from leadsman.cli.certificates import MEMBER_NAMES
from leadsman.etcd.member_start import EtcdFlags, MemberStart
from leadsman.state.etcd_http import EtcdAccess
from leadsman.testbed.etcd import Etcd
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
    "--peer-cert-file",
    "--peer-key-file",
    "--peer-trusted-ca-file",
    "--peer-client-cert-auth",
}
"""Addresses and paths; the testbed gives its own for each."""


@pytest.fixture
def initial(find: Find) -> dict[str, Any]:
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
    member.stop()


@pytest.mark.parametrize("build_name", ["base"], indirect=True)
def test_it_starts_with_a_quota_well_below_its_memory_and_its_volume(etcd: Etcd, find: Find) -> None:
    etcd.start()
    with urlopen(f"{etcd.metrics_url}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    (quota,) = [float(line.split()[1]) for line in lines if line.startswith("etcd_server_quota_backend_bytes ")]
    spec = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"]["memory"] == "2Gi"
    assert spec["volumes"][0]["emptyDir"]["sizeLimit"] == "4Gi"
    assert quota == 1024**3


@pytest.mark.parametrize("build_name", ["base"], indirect=True)
def test_members_show_each_other_the_certificate_of_their_names(initial: dict[str, Any]) -> None:
    args = [argument.replace("$(POD_NAME)", "leadsman-etcd-0") for argument in initial["args"]]
    flags = EtcdFlags.parse(args[args.index("--") + 1 :])
    assert {urlsplit(url).hostname for url in flags.members.values()} < set(MEMBER_NAMES)
    config = yaml.safe_load(flags.config_file(flags.members, is_new=True))
    assert config["peer-transport-security"] == {
        "cert-file": "/etc/leadsman-tls/tls.crt",
        "key-file": "/etc/leadsman-tls/tls.key",
        "trusted-ca-file": "/etc/leadsman-tls/ca.crt",
        "client-cert-auth": True,
    }
