"""What the extender knows of self-healing, from a fake API server on a real socket."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from leadsman.cluster.resources import Resources
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.published import self_healing
from leadsman.sources.cluster.self_healing_follower import BackupFollower, SelfHealingFollower
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

NOW, UNIX_NOW = 100.0, 1_000_000.0
STATE = "/api/v1/namespaces/leadsman/configmaps/leadsman-self-healing"
PLACEHOLDERS = "/api/v1/namespaces/leadsman-placeholders/pods"
DEAD = self_healing.RecoveryState(refused={"edge-1": "4 of 4 peers lost it"})


def publish(api: FakeApiServer, state: self_healing.SelfHealingState, path: str = STATE) -> None:
    api.put(path, {"metadata": {}, "data": {"state.json": self_healing.SELF_HEALING.encode(state).decode()}})


def placeholder(api: FakeApiServer, name: str, uid: str, path: str = PLACEHOLDERS, label: str = "placeholder") -> None:
    api.put(f"{path}/{name}", {"metadata": {"uid": uid, "labels": {f"leadsman.dev/{label}": "edge-2"}}, "spec": {}})


@asynccontextmanager
async def following(api: FakeApiServer, unix_now: float = UNIX_NOW) -> AsyncIterator[SelfHealingFollower]:
    async with ApiClient(ApiAccess(api.url), deadline_seconds=60.0) as client:
        one = SelfHealingFollower(client, "leadsman", lambda: NOW, lambda: unix_now)
        async with running(one.run()):
            await until(lambda: one.state.loaded.is_set() and one.placeholders.loaded.is_set())
            yield one


def samples(one: SelfHealingFollower) -> dict[str, float]:
    return {sample.name: sample.value for family in one.families() for sample in family.samples}


async def test_what_is_published_is_seen_and_what_is_withdrawn_too(api: FakeApiServer) -> None:
    """Without the ConfigMap nothing is refused, and another one says nothing."""
    publish(api, self_healing.SelfHealingState(DEAD), STATE.replace("-self-healing", "-other"))
    async with following(api) as one:
        assert (one.current.refused, one.current.holds, one.last_round_trips) == ({}, {}, {})
        assert one.current.read_at == NOW
        publish(api, self_healing.SelfHealingState(DEAD, UNIX_NOW, backup_owners={"edge-2": ("rs-web", "rs-cam")}))
        await until(lambda: one.current.refused == DEAD.refused)
        assert one.current.backup_owners == {"edge-2": {"rs-web", "rs-cam"}}
        publish(api, self_healing.SelfHealingState())
        await until(lambda: one.current.refused == {})
        publish(api, self_healing.SelfHealingState(DEAD))
        await until(lambda: one.current.refused == DEAD.refused)
        api.delete(STATE)
        await until(lambda: one.current.refused == {})


async def test_only_labelled_pods_of_the_one_namespace_are_placeholders(api: FakeApiServer) -> None:
    placeholder(api, "holder-1", "u1")
    placeholder(api, "other", "u2", label="something")
    placeholder(api, "theirs", "u3", path="/api/v1/namespaces/default/pods")
    async with following(api) as one:
        assert one.current.placeholders == {"u1"}
        placeholder(api, "holder-4", "u4")
        await until(lambda: one.current.placeholders == {"u1", "u4"})
        api.delete(f"{PLACEHOLDERS}/holder-1")
        await until(lambda: one.current.placeholders == {"u4"})
        assert samples(one)["leadsman_extender_placeholders"] == 1


@pytest.mark.parametrize("ahead_seconds", [0.0, -300.0, 3600.0])
async def test_a_hold_lasts_as_long_as_it_was_meant_to_whatever_the_clocks_say(
    api: FakeApiServer, ahead_seconds: float
) -> None:
    hold = self_healing.Hold("edge-2", "rs-web", Resources(100, 2**20, 1), UNIX_NOW + 60.0, "web-1")
    publish(api, self_healing.SelfHealingState(self_healing.RecoveryState(holds=(hold,)), UNIX_NOW))
    async with following(api, UNIX_NOW + ahead_seconds) as one:
        assert one.current.held_until("edge-2", NOW) == {"rs-web": NOW + 60.0}
        assert one.current.held_until("edge-2", NOW + 60.0) == {}
        assert samples(one)["leadsman_extender_holds"] == 1


async def test_last_round_trips_keep_their_age(api: FakeApiServer) -> None:
    last = {"edge-1": self_healing.LastRoundTrips(UNIX_NOW - 30.0, {"edge-2": 2.5})}
    publish(api, self_healing.SelfHealingState(DEAD, UNIX_NOW, last))
    async with following(api) as one:
        assert one.last_round_trips["edge-1"].measured_at == NOW - 30.0
        assert one.last_round_trips["edge-1"].rtt_ms == {"edge-2": 2.5}


@pytest.mark.parametrize("data", [{"state.json": "{"}, {"state.json": '{"recovery": 7}'}, {"other": "{}"}, {}])
async def test_a_state_that_cannot_be_read_leaves_the_one_before_in_use(
    api: FakeApiServer, caplog: pytest.LogCaptureFixture, data: dict[str, Any]
) -> None:
    publish(api, self_healing.SelfHealingState(DEAD))
    async with following(api) as one:
        api.put(STATE, {"metadata": {}, "data": data})
        await until(lambda: one.unreadable == 1)
        assert one.current.refused == DEAD.refused
        assert "cannot read ConfigMap leadsman/leadsman-self-healing; the state read before stays" in caplog.text
        assert samples(one)["leadsman_extender_unreadable_states_total"] == 1
        publish(api, self_healing.SelfHealingState())
        await until(lambda: one.current.refused == {})


async def test_each_pod_has_its_backup_or_the_reason_why_not(api: FakeApiServer) -> None:
    """What cannot be read leaves what was read before."""
    reasons = {"uid-b": "node edge-3 does not hold its room yet", "uid-c": "3 delay to edge-1 over 25 ms"}
    backups = {
        f"uid-{pod}": self_healing.RememberedBackup(node, "rs") for pod, node in (("a", "edge-2"), ("b", "edge-3"))
    }

    def publish(data: bytes) -> str:
        text = b64encode(data).decode()
        api.put(STATE.replace("self-healing", "backups"), {"binaryData": {"backups.json.gz": text}})
        return text

    publish(self_healing.BACKUPS.encode(self_healing.BackupMemory(1.0, backups, reasons)))
    async with ApiClient(ApiAccess(api.url), deadline_seconds=60.0) as client:
        one = BackupFollower(client, "leadsman")
        async with running(one.reflector.run()):
            await until(lambda: one.reflector.loaded.is_set())
            told = [
                "covered by node edge-2",
                "not covered by node edge-3 yet: node edge-3 does not hold its room yet",
                "uncovered: 3 delay to edge-1 over 25 ms",
                "None",
            ]
            assert [str(one.of_pod(f"uid-{pod}")) for pod in "abcd"] == told
            damaged = publish(b"no gzip")
            shown = [{"backups.json.gz": damaged}]
            await until(lambda: [each.binary_data for each in one.reflector.current.values()] == shown)
            assert [str(one.of_pod(f"uid-{pod}")) for pod in "abcd"] == told
