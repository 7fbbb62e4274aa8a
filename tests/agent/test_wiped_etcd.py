"""A real etcd that loses its data under a reporter and the rewards of its node."""

import logging
import time
from pathlib import Path
from random import Random

import pytest

from agent.pods.incident_ledger import IncidentLedger
from agent.pods.reward_persistence import RewardPersistence
from agent.reporting import LoopLiveness, Reporter
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.state.report_timing import ReportTiming
from leadsman.testbed.etcd import Etcd
from tests.conftest import Until
from tests.testbed.background import running

BACK_WITHIN_SECONDS = 20.0


async def stored_keys(store: EtcdStore) -> set[str]:
    return {item.key for item in (await store.read_prefix(keys.node_prefix("edge-1"))).items}


@pytest.mark.slow
async def test_records_and_rewards_are_back_and_nobody_is_accused_of_having_written(
    tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with Etcd(tmp_path / "data") as etcd:
        store, liveness = EtcdStore(EtcdAccess((etcd.client_url,))), LoopLiveness({}, 15.0, time.monotonic)
        identity = Identity("uid-1", 0, "10.0.0.1")
        reporter = Reporter(
            store, "edge-1", identity, ReportTiming, lambda: {Hardware: Hardware({"load1": 1.0})}, liveness, Random(2)
        )
        persistence = RewardPersistence(store, "edge-1", lambda: reporter.ownership, Random(1))
        async with running(reporter.run()):
            ledger = IncidentLedger(*await persistence.restore(), time.monotonic, time.time)
            ledger.on_first_list([])
            ledger.count_bind_failure("key", "shop", IncidentCause.BIND_REFUSED)
            await persistence.save(ledger)
            before = await stored_keys(store)
            assert keys.reward_key("edge-1", "shop") in before
            reports = reporter.report_count
            etcd.wipe()
            etcd.start()
            await until(lambda: reporter.report_count > reports, BACK_WITHIN_SECONDS)
            await persistence.save(ledger)
            lives = {keys.record_key("edge-1", kind) for kind in (Identity, Heartbeat, Hardware)}
            assert before | lives <= await stored_keys(store)
            assert "another writer" not in caplog.text
        await reporter.close()
        await store.close()
