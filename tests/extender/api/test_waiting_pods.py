"""Which pods with bounds wait, by one replica's attempts and by those of all."""

import pytest

from extender.api.contract.decisions import SilentReplica
from extender.api.contract.overview import BoundedPod, ReplicaRates, WaitingPods
from extender.api.replica_statuses import ReplicaStatuses
from extender.api.waiting_pods import FORGET_SECONDS, TriedPod, bounded_pods, tried_pods, waiting_pods
from extender.journal import JournalEntry
from leadsman.decision.decide import FilterResult
from leadsman.decision.model import PodInfo, Refusal
from tests.extender.api.conftest import Api

BOUNDED = {"delay_a": "1"}


def entry(kept: bool, decided_at: float, **labels: str) -> JournalEntry:
    pod = PodInfo("shop", "cart", "uid", labels)
    result = FilterResult(("a",), {}) if kept else FilterResult((), {"a": Refusal("delay", "far")})
    return JournalEntry(pod, ("a",), decided_at, result)


def test_a_pod_waits_from_the_first_attempt_until_a_node_passes() -> None:
    first = tried_pods({}, [entry(False, 10.0, **BOUNDED)], 11.0)
    again = tried_pods(first, [entry(False, 50.0, **BOUNDED)], 51.0)
    assert again == {"uid": TriedPod("shop/cart", 10.0, 50.0)}
    passed = tried_pods(again, [entry(True, 60.0, **BOUNDED)], 61.0)
    assert passed == {"uid": TriedPod("shop/cart", None, 60.0)}
    assert tried_pods(passed, [entry(False, 70.0, **BOUNDED)], 71.0) == {"uid": TriedPod("shop/cart", 70.0, 70.0)}


def test_a_pod_that_is_not_tried_any_more_does_not_wait() -> None:
    tried = tried_pods({}, [entry(False, 10.0, **BOUNDED)], 11.0)
    assert tried_pods(tried, [], 10.0 + FORGET_SECONDS) == {}


def test_a_pod_without_a_bound_is_not_counted() -> None:
    assert tried_pods({}, [entry(False, 10.0)], 11.0) == {}


def test_replicas_say_ages_as_their_clocks_differ() -> None:
    tried = {"u": TriedPod("shop/cart", 10.0, 50.0), "v": TriedPod("shop/web", None, 60.0)}
    assert bounded_pods(tried, 100.0) == [
        BoundedPod("u", "shop/cart", 90.0, 50.0),
        BoundedPod("v", "shop/web", None, 40.0),
    ]


def refused(waiting_seconds: float, tried_seconds_ago: float, name: str = "cart") -> BoundedPod:
    return BoundedPod(f"uid-{name}", f"shop/{name}", waiting_seconds, tried_seconds_ago)


def passed(tried_seconds_ago: float) -> BoundedPod:
    return BoundedPod("uid-cart", "shop/cart", None, tried_seconds_ago)


@pytest.mark.parametrize(
    ("here", "there", "waiting_seconds"),
    [
        (refused(90.0, 5.0), refused(40.0, 40.0), 90.0),
        (refused(40.0, 40.0), refused(90.0, 5.0), 90.0),
        (refused(90.0, 50.0), passed(20.0), None),
        (refused(90.0, 5.0), passed(20.0), 20.0),
        (passed(5.0), passed(20.0), None),
    ],
)
def test_the_last_attempt_at_any_replica_says_whether_a_pod_waits(
    here: BoundedPod, there: BoundedPod, waiting_seconds: float | None
) -> None:
    pod = None if waiting_seconds is None else "shop/cart"
    assert waiting_pods([[here], [there]]) == WaitingPods(int(pod is not None), waiting_seconds, pod, ())


def test_pods_of_all_replicas_are_counted_and_the_one_that_waits_longest_is_named() -> None:
    away = SilentReplica("extender-2", "no answer within 400 ms")
    of_replicas = [[refused(30.0, 1.0), refused(7.0, 7.0, "web")], [refused(60.0, 9.0, "pay")]]
    assert waiting_pods(of_replicas, [away]) == WaitingPods(3, 60.0, "shop/pay", [away])


async def test_the_overview_shows_the_pods_that_wait_at_another_replica(api: Api) -> None:
    theirs = BoundedPod("uid-far", "shop/far", 60.0, 1.0)
    api.live.replicas.rates = {"extender-1": rates_with(theirs)}
    api.live.replicas.without_rates = [SilentReplica("extender-2", "no answer within 400 ms")]
    waiting = (await api.get("/overview"))[1]["waiting"]
    assert (waiting["bounded_pods"], waiting["longest_seconds"], waiting["pod"]) == (1, 60.0, "shop/far")
    assert waiting["partial"] == [{"replica": "extender-2", "error": "no answer within 400 ms"}]


def test_what_another_replica_said_grows_older_here() -> None:
    statuses = ReplicaStatuses(None, None, iter([0.0, 10.0]).__next__)
    statuses.rates = {"extender-1": rates_with(refused(60.0, 1.0), passed(2.0))}
    assert statuses.bounded_pods == [[refused(70.0, 11.0), passed(12.0)]]


def rates_with(*pods: BoundedPod) -> ReplicaRates:
    return ReplicaRates("", 60.0, [], [], 0, pods)
