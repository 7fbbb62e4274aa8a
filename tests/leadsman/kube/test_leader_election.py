"""The Lease, on clocks in the test's hand: who holds it, who takes it, and until when anybody acts."""

import pytest

from leadsman.kube.client import ApiClient
from leadsman.kube.leader_election import LEASE_DURATION_SECONDS, LeaderElector
from leadsman.kube.resources import LEASES
from leadsman.testbed.api_objects import parse_path
from tests.testbed.clock import Clock
from tests.testbed.scripted_api_server import FakeApiServer

PATH = LEASES.path("leadsman", "c")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def elects(client: ApiClient, clock):
    """elects("a"): one that would lead."""
    return lambda name: LeaderElector(client, "leadsman", "c", name, clock=clock)


@pytest.fixture
async def both(elects):
    """Two that tried to; the first one leads."""
    one, two = elects("a"), elects("b")
    await one.try_acquire_or_renew()
    await two.try_acquire_or_renew()
    return one, two


async def test_one_that_was_killed_is_replaced_after_the_lease_s_duration_and_not_before(both, clock) -> None:
    one, two = both
    clock.now += 14.9
    await two.try_acquire_or_renew()
    assert not two.is_leader
    clock.now += 0.1
    await two.try_acquire_or_renew()
    assert two.is_leader
    assert not one.is_leader


async def test_a_holder_that_cannot_renew_stops_before_anybody_may_take_over(elects, api: FakeApiServer, clock) -> None:
    one = elects("a")
    await one.try_acquire_or_renew()
    api.fail("get", 503, times=9)
    for _ in range(5):
        clock.now += 1.99
        await one.try_acquire_or_renew()
        assert one.is_leader
    clock.now += 0.1
    assert not one.is_leader
    assert clock.now - 100 < LEASE_DURATION_SECONDS


async def test_time_spent_on_a_slow_renewal_does_not_prolong_the_lead(elects, clock) -> None:
    """The lead counts from the call's beginning."""
    one = elects("a")
    real, began = one._read, clock.now

    async def slow():
        clock.now += 4
        return await real()

    one._read = slow
    await one.try_acquire_or_renew()
    clock.now = began + 9.9
    assert one.is_leader
    clock.now = began + 10
    assert not one.is_leader


async def test_clocks_of_others_count_for_nothing(elects, api: FakeApiServer, clock) -> None:
    """A holder whose wall clock is a year behind keeps its Lease as long as it renews it."""
    two = elects("b")
    for number in range(10):
        old = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": f"2001-01-01T00:00:{number:02}.000000Z"}
        api.put(PATH, {"spec": old})
        await two.try_acquire_or_renew()
        clock.now += 10
        assert not two.is_leader


async def test_two_who_take_it_at_once_are_told_apart_by_the_resource_version(elects, api: FakeApiServer) -> None:
    api.put(PATH, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
    one, two = elects("a"), elects("b")
    real = one._read

    async def read_and_be_overtaken():
        lease = await real()
        await two.try_acquire_or_renew()
        return lease

    one._read = read_and_be_overtaken
    await one.try_acquire_or_renew()
    assert (one.is_leader, two.is_leader) == (False, True)
    assert one.problem.text.startswith("Conflict")


async def test_one_that_leaves_makes_room_at_once(both) -> None:
    one, two = both
    await one.release()
    assert not one.is_leader
    await two.try_acquire_or_renew()
    assert two.is_leader


async def test_one_that_leaves_touches_nobody_else_s_lease(both, api: FakeApiServer, clock) -> None:
    one, two = both
    clock.now += 15
    await two.try_acquire_or_renew()
    await one.release()
    assert api.objects.get(parse_path(PATH))["spec"]["holderIdentity"] == "b"
