"""Rewards that etcdctl saved from an open etcd are in a locked one afterwards, and an agent counts on from them."""

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leadsman.cli.main import main
from leadsman.etcd.saved_records import lasting_records
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Heartbeat
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd, find_binary

if TYPE_CHECKING:
    from tests.leadsman.etcd.conftest import Locked

REWARD, COUNTED = keys.reward_key("node-a", "web"), keys.counted_totals_key("node-a", "3")
LASTING = {REWARD: b'{"reward": 1}', COUNTED: b"{}", keys.reward_key("node-b", "web"): b"\xff any bytes"}
OTHERS = (keys.record_key("node-a", Heartbeat), f"{keys.NODES_PREFIX}node-a/counted/x", f"{keys.NODES_PREFIX}junk")


@pytest.fixture
def open_etcd(tmp_path: Path) -> Iterator[Etcd]:
    with Etcd(tmp_path / "open") as one:
        yield one


async def saved(etcd: Etcd) -> bytes:
    """What the step of docs/etcd.md prints."""
    store = EtcdStore(EtcdAccess((etcd.client_url,)))
    await store.write([Put(key, value) for key, value in LASTING.items()] + [Put(key, b"{}") for key in OTHERS])
    await store.close()
    etcdctl = str(find_binary().with_name("etcdctl"))
    command = [etcdctl, f"--endpoints={etcd.client_url}", "get", "--prefix", keys.NODES_PREFIX, "--write-out=json"]
    done = await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    return done.stdout


def load(locked: "Locked", text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    access = [f"--etcd={locked.etcd.client_url}", f"--etcd-ca={tmp_path}/ca.crt"]
    return main(["etcd-load", *access, "--etcd-user=root", f"--etcd-password-file={tmp_path}/root-password"])


async def test_what_lasts_is_written_where_it_is_absent_and_read_by_its_node_s_agent(
    locked: "Locked",
    open_etcd: Etcd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = await saved(open_etcd)
    await locked.store("of-a").write([Put(COUNTED, b"newer")])
    assert await asyncio.to_thread(load, locked, text, tmp_path, monkeypatch) == 0
    assert capsys.readouterr().out == "2 records written, 1 were there already\n"
    items = (await locked.store("of-extender").read_prefix(keys.NODES_PREFIX)).items
    assert {item.key: item.value for item in items} == {**LASTING, COUNTED: b"newer"}
    (reward,) = (await locked.store("of-a").read_prefix(keys.rewards_prefix("node-a"))).items
    assert reward.value == LASTING[REWARD]


@pytest.mark.parametrize("text", [b"", b"[]", json.dumps({"kvs": [{"key": "%"}]}).encode()])
def test_what_etcdctl_did_not_print_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="etcdctl get"):
        lasting_records(text)
