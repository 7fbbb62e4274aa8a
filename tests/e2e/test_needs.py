"""`make e2e` where a machine cannot run it, and the parts that need no cluster."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import dns
from tests.e2e.needs import BINARIES, Missing, find_binaries

SERVICES = [
    {"metadata": {"name": "api", "namespace": "a"}, "spec": {"clusterIP": "10.0.0.7"}},
    {"metadata": {"name": "peers", "namespace": "a"}, "spec": {"clusterIP": "None", "publishNotReadyAddresses": True}},
]
SLICES = [
    {
        "metadata": {"namespace": "a", "labels": {"kubernetes.io/service-name": "peers"}},
        "endpoints": [{"addresses": ["10.89.1.2"], "hostname": "etcd-0", "conditions": {"ready": False}}],
    }
]


def test_without_the_binaries_it_is_one_line_and_no_failure() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "E2E_BIN"}
    command = [sys.executable, "-m", "tests.e2e"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith("make e2e: skipped: E2E_BIN is not set")


def test_what_the_folder_lacks_is_named(tmp_path: Path) -> None:
    for name in BINARIES[1:]:
        (tmp_path / name).touch()
    with pytest.raises(Missing, match=f"there is no {BINARIES[0]} in it"):
        find_binaries({"E2E_BIN": str(tmp_path)})


def test_a_service_has_its_address_and_a_headless_one_its_pods() -> None:
    assert dns.records(SERVICES, SLICES) == {
        "api.a.svc.cluster.local": ["10.0.0.7"],
        "peers.a.svc.cluster.local": ["10.89.1.2"],
        "etcd-0.peers.a.svc.cluster.local": ["10.89.1.2"],
    }


def test_a_query_is_answered_and_an_unknown_name_does_not_exist() -> None:
    records = dns.records(SERVICES, SLICES)
    found = dns.answer(query("api.a.svc.cluster.local"), records)
    assert found.endswith(bytes([10, 0, 0, 7]))
    assert struct.unpack("!HHHH", found[:8]) == (7, 0x8580, 1, 1)
    assert struct.unpack("!HHHH", dns.answer(query("example.com"), records)[:8]) == (7, 0x8583, 1, 0)


def query(name: str) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)
