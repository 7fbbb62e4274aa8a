"""The node's ledger: each incident once, each healthy second once, whatever is told how often."""

from collections.abc import Mapping

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from agent.pods.incident_ledger import DEFAULT_LIMITS, RUN_SECONDS_QUALITY, CountedTotals, IncidentLedger, LedgerLimits
from leadsman.kube.objects import Pod
from leadsman.rewards import reward_updates
from leadsman.state import keys
from leadsman.state.records import Reward, encode_record
from tests.agent.pods import given

START_UNIX = 1_772_366_400.0  # 2026-03-01T12:00:00Z, as the pods in conftest


class World:
    """A ledger, and the two clocks it reads. set_seconds: how far the wall clock was set."""

    def __init__(self, first: bool = False, limits: LedgerLimits = DEFAULT_LIMITS) -> None:
        self.now, self.set_seconds, self.limits = 0.0, 0.0, limits
        self.ledger = self.opened({}, CountedTotals(), first)

    def opened(self, rewards: Mapping[str, Reward], totals: CountedTotals, first: bool) -> IncidentLedger:
        return IncidentLedger(
            rewards,
            totals,
            first,
            lambda: 1000.0 + self.now,
            lambda: START_UNIX + self.now + self.set_seconds,
            self.limits,
        )

    def restart(self, down_seconds: float = 0.0) -> None:
        """A new agent that finds what the old one wrote."""
        shards = [self.ledger.counted_totals.shard_record(shard) for shard in keys.COUNTED_SHARDS]
        self.now += down_seconds
        self.ledger = self.opened(self.ledger.rewards, CountedTotals(shards), False)

    def passes(self, seconds: float, step: float = 5.0) -> None:
        for _ in range(round(seconds / step)):
            self.now += step
            self.ledger.credit_health()

    def reward(self, name: str = "shop") -> Reward:
        return self.ledger.rewards.get(name) or reward_updates.new_reward(START_UNIX + self.now)

    def incidents(self, name: str = "shop") -> dict[str, int]:
        return self.reward(name).incidents


@pytest.fixture
def world() -> World:
    return World()


def test_a_thousand_annotation_patches_on_a_healthy_pod_change_no_reward(world: World) -> None:
    world.ledger.on_pod_updated(given.pod("Running", given.running()))
    world.passes(60)
    before = world.reward()
    for number in range(1000):
        world.ledger.on_pod_updated(given.pod("Running", given.running(), annotations={"touched": str(number)}))
    assert world.reward() == before


def test_what_happened_before_the_very_first_agent_is_history() -> None:
    world, old = World(first=True), given.pod("Running", given.restarted(57))
    world.ledger.on_first_list([old])
    world.ledger.on_pod_updated(old)
    assert world.incidents() == {}
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(58)))
    assert world.incidents() == {"crash": 1}


def test_health_goes_on_over_a_restart_of_the_agent_and_is_credited_once(world: World) -> None:
    pod = given.pod("Running", given.running())
    whole, again = World(), world
    for one in (whole, again):
        one.ledger.on_pod_updated(pod)
        one.passes(300)
    again.restart(down_seconds=60)
    again.ledger.on_first_list([pod])
    again.ledger.on_pod_updated(pod)
    again.passes(240)
    whole.passes(300)
    assert again.reward().healthy == pytest.approx(whole.reward().healthy, rel=0.02)


def test_a_pod_that_is_not_ready_earns_nothing_and_goes_on_where_it_was(world: World) -> None:
    for ready in (True, False, True):
        world.ledger.on_pod_updated(given.pod("Running", given.running(ready=ready)))
        world.passes(300)
    assert world.ledger.healthy_seconds["shop"] == pytest.approx(600)
    twice = reward_updates.earned_trials(0, 600)
    assert twice * 0.8 < world.reward().healthy < twice


@pytest.mark.parametrize("set_seconds", [86_400.0, -3_600.0])
def test_a_wall_clock_that_is_set_neither_fades_a_failure_nor_hides_what_comes_after(
    world: World, set_seconds: float
) -> None:
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(5)))
    failed = world.reward().failed
    world.set_seconds = set_seconds
    world.passes(600)
    assert world.reward().failed > failed / 2
    assert world.reward().recent > 0
    world.restart(10)
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(5)))
    world.passes(15)
    assert world.reward().failed > failed / 2
    assert world.ledger.healthy_seconds["shop"] < 60


def test_a_pod_that_is_not_ready_when_the_agent_starts_earns_no_first_stretch_again(world: World) -> None:
    ready, unready = (given.pod("Running", given.running(ready=each)) for each in (True, False))
    world.ledger.on_pod_updated(ready)
    world.passes(36_000)
    world.restart()
    before = world.reward().healthy
    for pod in (unready, ready):
        world.ledger.on_pod_updated(pod)
    world.passes(600)
    assert world.reward().healthy - before < reward_updates.earned_trials(0, 600) / 2


def test_a_static_pod_whose_copy_in_the_api_is_made_again_counts_none_of_its_restarts_again(world: World) -> None:
    def copy(uid: str, restarts: int, created: str = given.T0) -> Pod:
        mirror = {"kubernetes.io/config.mirror": "5f3c"}
        return given.pod("Running", given.restarted(restarts), uid=uid, annotations=mirror, created=created)

    world.ledger.on_first_list([copy("one", 15)])
    world.ledger.on_pod_updated(copy("one", 15))
    world.ledger.on_pod_deleted(copy("one", 15))
    world.ledger.on_pod_updated(copy("two", 15))
    assert world.incidents() == {"crash": 15}
    world.ledger.on_pod_updated(copy("two", 16))
    assert world.incidents() == {"crash": 16}
    world.passes(3600)
    world.ledger.on_pod_deleted(copy("two", 16))
    world.ledger.on_pod_updated(copy("three", 16))
    world.passes(60)
    assert world.ledger.healthy_seconds["shop"] == pytest.approx(3660)
    world.restart(10)
    world.ledger.on_first_list([copy("four", 16, "2026-03-01T13:01:05Z")])
    world.ledger.on_pod_updated(copy("four", 16, "2026-03-01T13:01:05Z"))
    assert world.incidents() == {"crash": 16}


@pytest.mark.parametrize("init_restarts", [0, 1])
def test_a_finished_job_is_one_success_and_its_run_time_one_sample(world: World, init_restarts: int) -> None:
    init = [{"state": given.ended(0, "Completed"), "restartCount": init_restarts}]
    done = given.pod("Succeeded", {"state": given.ended(0, "Completed")}, init=init)
    world.ledger.on_pod_updated(given.pod("Running", given.running(), init=init))
    world.passes(300)
    for _ in range(3):
        world.ledger.on_pod_updated(done)
    world.restart()
    world.ledger.on_first_list([done])
    world.ledger.on_pod_updated(done)
    assert world.incidents() == {}
    assert world.reward().healthy == pytest.approx(1.0, abs=0.05)
    assert world.reward().qualities[RUN_SECONDS_QUALITY].samples == pytest.approx(1.0)


def test_a_restart_that_a_probe_may_have_caused_waits_for_events(world: World) -> None:
    killed = given.pod("Running", given.restarted(1, 137))
    assert world.ledger.on_pod_updated(killed) is True
    assert world.incidents() == {}
    world.ledger.count_incidents(
        given.UID, [given.warning("Unhealthy", "Liveness probe failed: timeout", container="app")]
    )
    assert world.incidents() == {"probe_failure": 1}
    assert world.ledger.on_pod_updated(killed) is False


MOUNT_FAILED = given.warning("FailedMount", "mount failed: exit status 32")
NO_IMAGE = given.waiting("ImagePullBackOff", "shop:nope: not found")
NO_SECRET = given.waiting("CreateContainerConfigError", 'secret "x" not found')
NEVER_READY = given.pod("Running", given.running(ready=False), unready_since="2026-03-01T11:59:59Z")


@pytest.mark.parametrize(
    ("pod", "seconds", "events", "cause", "lowers_reward"),
    [
        (given.pod("Pending", given.waiting()), DEFAULT_LIMITS.stuck_seconds, [MOUNT_FAILED], "volume", True),
        (given.pod("Pending", NO_IMAGE), DEFAULT_LIMITS.stuck_seconds, [], "image_unknown", False),
        (given.pod("Pending", NO_SECRET), DEFAULT_LIMITS.stuck_seconds, [], "config_error", False),
        (NEVER_READY, DEFAULT_LIMITS.unready_seconds, [], "never_ready", True),
    ],
    ids=["stuck", "no image", "a bad manifest", "never ready"],
)
def test_a_pod_that_does_not_get_ready_is_counted_once_after_the_limit(
    world: World, pod, seconds: float, events, cause: str, lowers_reward: bool
) -> None:
    """A fault of the image or of the manifest is recorded, and lowers no reward of the node."""
    world.ledger.on_pod_updated(pod)
    world.passes(seconds)
    assert world.ledger.stuck_pods() == []
    world.passes(5)
    assert world.ledger.stuck_pods() == [given.UID]
    world.ledger.count_incidents(given.UID, events)
    assert world.incidents() == {cause: 1}
    assert bool(world.reward().failed) is lowers_reward
    assert world.ledger.stuck_pods() == []


def test_a_pod_that_failed_and_was_deleted_at_once_is_counted(world: World) -> None:
    world.ledger.on_pod_updated(given.pod("Running", given.running()))
    world.ledger.on_pod_deleted(given.pod("Failed", reason="Evicted"))
    assert world.incidents() == {"evicted": 1}
    assert world.ledger.pods == {}


def test_an_exit_that_waits_for_its_events_counts_when_its_pod_is_deleted_meanwhile(world: World) -> None:
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(1, 137)))
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(2, 137), deleted=True))
    assert world.incidents() == {"crash": 1}


def test_types_are_bounded_and_the_longest_idle_one_without_pods_goes() -> None:
    world = World(limits=LedgerLimits(most_types=2))
    for number, name in enumerate(("a", "b", "c")):
        world.now += 1
        pod = given.pod("Running", given.restarted(1), labels={"podtype": name}, uid=f"uid-{number}")
        world.ledger.on_pod_updated(pod)
        if name != "a":
            continue
        world.ledger.on_pod_deleted(pod)
    assert set(world.ledger.rewards) == {"b", "c"}
    assert world.ledger.dropped_types == {"a"}


def test_a_type_has_a_bounded_number_of_qualities(world: World) -> None:
    world.ledger.on_pod_updated(given.pod("Running", given.running()))
    for number in range(20):
        world.ledger.observe_quality(given.UID, f"quality_{number}", 1.0)
    assert len(world.reward().qualities) == 8


def test_a_restart_count_that_fell_while_no_agent_ran_hides_none(world: World) -> None:
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(5)))
    world.restart(down_seconds=60)
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(2)))
    assert world.incidents() == {"crash": 7}


CRASHES = st.tuples(st.integers(1, 9), st.sampled_from(("over", "backing off", "running")))
"""How many since the last look, and what the container does now."""


@for_all(steps=st.lists(st.one_of(CRASHES, st.sampled_from(("relist", "new agent", "reboot"))), max_size=12))
def test_each_crash_counts_once_whatever_is_seen_of_it(steps) -> None:
    """Several crashes between two looks, relists, agents that start again, reboots that empty the runtime."""
    world, crashes, since_boot, does = World(), 0, 0, "running"
    for step in steps:
        if isinstance(step, tuple):
            (count, does) = step
            crashes, since_boot = crashes + count, since_boot + count
        elif step == "reboot":
            since_boot, does = 0, "running"
        elif step == "new agent":
            world.restart()
        end = given.ended(1)
        container = {
            "running": given.running(**(end if since_boot else {})) | {"restartCount": since_boot},
            "over": {"ready": False, "state": end, "restartCount": since_boot - 1},
            "backing off": given.waiting("CrashLoopBackOff", **end) | {"restartCount": since_boot - 1},
        }[does]
        world.ledger.on_pod_updated(given.pod("Running", container))
        assert world.incidents() == ({"crash": crashes} if crashes else {})


def test_a_shard_never_outgrows_its_value() -> None:
    counted = CountedTotals()
    for number in range(5000):
        counted.record(f"0c3a8f5e-7a53-4a3b-9d0e-{number:012}", "app", number + 1)
    assert all(3000 < len(encode_record(counted.shard_record(part))) <= 4096 for part in counted.changed_shards)


def test_health_before_the_first_agent_is_not_credited() -> None:
    world = World(first=True)
    world.now = 86_400.0
    world.ledger = world.opened({}, CountedTotals(), True)
    pod = given.pod("Running", given.running())
    world.ledger.on_first_list([pod])
    world.ledger.on_pod_updated(pod)
    world.passes(60)
    assert world.ledger.healthy_seconds["shop"] == pytest.approx(60)
    assert world.reward().healthy < 0.1


def test_health_of_a_type_too_many_drives_out_no_incident() -> None:
    world = World(limits=LedgerLimits(most_types=1))
    world.ledger.on_pod_updated(given.pod("Running", given.restarted(1), labels={"podtype": "a"}, uid="uid-a"))
    world.ledger.on_pod_updated(given.pod("Running", given.running(), labels={"podtype": "b"}, uid="uid-b"))
    world.passes(60)
    assert set(world.ledger.rewards) == {"a"}
    assert set(world.ledger.healthy_seconds) == {"a"}
