"""Pods with a delay bound that wait are counted, and each gets one Event for each thing that can be said of it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.pods import PATIENCE_SECONDS, RECHECK_SECONDS, REPEAT_SECONDS, WaitingPodReporter, WatchedPod
from controller.policies import GRACE_SECONDS, MissingPolicyReporter
from leadsman.decision.inputs import TasPolicies
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, RefusedPolicy, TasPolicy
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.events import EventWriter
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.testbed.api_objects import parse_path
from tests.controller.followed import Told, listed, node_cache, tools, waiting_pod
from tests.leadsman.planning.measured import measured
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
START = datetime(2026, 11, 22, 10, tzinfo=UTC)


def pending(name: str, labels: dict[str, str], reason: str = "Unschedulable") -> WatchedPod:
    return waiting_pod(name, labels, reason, namespace="shop", creationTimestamp=START.strftime("%Y-%m-%dT%H:%M:%SZ"))


class Waiting:
    """A reporter, the pods it sees, the delay that it knows and the time."""

    def __init__(self, api: FakeApiServer, recorder: EventWriter) -> None:
        self.api, self.now, self.rtt_ms = api, 100.0, {"near": 12.5, "far": 80.0}
        self.pods = [pending("cart", {"delay_edge-1": "10"}), pending("free", {"app": "x"})]
        self.pending = listed({})
        wall_clock = lambda: START.timestamp() + self.now - 40  # noqa: E731
        inputs = lambda: measured(self.now, {"edge-1": self.rtt_ms})  # noqa: E731
        given = tools(None, recorder, inputs, clock=lambda: self.now, wall_clock=wall_clock)
        self.reporter = WaitingPodReporter(given, self.pending, node_cache("near", "far"), TokenBucket(0.001, 100))

    async def after(self, seconds: float) -> None:
        self.now += seconds
        self.pending.current = {("shop", pod.metadata.name): pod for pod in self.pods}
        await self.reporter.turn()

    def events(self) -> list[dict[str, Any]]:
        return list(self.api.objects.all(parse_path(EVENTS)))


async def test_a_pod_that_waits_gets_an_event_with_the_bound_and_the_nearest_node(
    api: FakeApiServer, recorder: EventWriter
) -> None:
    waiting = Waiting(api, recorder)
    await waiting.after(0.0)
    assert waiting.events() == []
    await waiting.after(PATIENCE_SECONDS)
    await until(lambda: len(waiting.events()) == 1)
    (event,) = waiting.events()
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("BoundWaiting", "Warning", "cart")
    assert "the nearest, near, is 12.5 ms away, 2.5 ms too far" in event["note"]


async def test_the_same_is_said_once_while_the_event_lasts_and_another_nearest_node_at_the_next_look(
    api: FakeApiServer, recorder: EventWriter
) -> None:
    waiting = Waiting(api, recorder)
    await waiting.after(0.0)
    for _ in range(3):
        await waiting.after(RECHECK_SECONDS)
        waiting.rtt_ms["near"] += 1
    await until(lambda: recorder.written == 1)
    waiting.rtt_ms = {"near": 90.0, "far": 80.0}
    await waiting.after(RECHECK_SECONDS)
    await until(lambda: recorder.written == 2)
    assert "the nearest, far, is 80 ms away" in waiting.events()[-1]["note"] + waiting.events()[0]["note"]
    queued = len(recorder._pending)
    await waiting.after(REPEAT_SECONDS)
    assert len(recorder._pending) == queued + 1, "said again when API servers have forgotten it"


# Pods that name a telemetry policy which does not exist get one Event.

NOTE = (
    "label telemetry-policy names TASPolicy ns/gone, which does not exist;"
    " the pod is scheduled without a policy; create the policy or correct the label"
)
LABELS = BoundedLabels({"telemetry-policy": "gone"})
REFUSED = TasPolicies(refused={PolicyKey("ns", "gone"): RefusedPolicy(PolicyProblem("spec", "bad"))}, loaded=True)


async def looked(policies: TasPolicies) -> list[Any]:
    """The Events when a pod is looked at again and again, for longer than a policy may be late."""
    now, told = 100.0, Told()
    pods = listed({1: PartialObjectMetadata(ObjectMeta("p", "ns", "u1", labels=LABELS))})
    missing = MissingPolicyReporter(tools(None, told, clock=lambda: now), pods, lambda: policies, TokenBucket(1e-9, 3))
    for _ in range(int(2 * GRACE_SECONDS)):
        await missing.turn()
        now += 1
    return told.events


async def test_it_is_told_once_on_the_pod_with_the_policy_s_name() -> None:
    (event,) = await looked(TasPolicies(loaded=True))
    assert (event.about.kind, event.about.namespace, event.about.name, event.about.uid) == ("Pod", "ns", "p", "u1")
    assert (event.reason, event.note, event.warning) == ("TelemetryPolicyMissing", NOTE, True)


@pytest.mark.parametrize(
    "policies",
    [
        TasPolicies(),
        TasPolicies({PolicyKey("ns", "gone"): TasPolicy("ns", "gone")}, loaded=True),
        TasPolicies({PolicyKey("ns", "gone"): TasPolicy("ns", "gone")}, REFUSED.refused, loaded=True),
    ],
    ids=["not listed yet", "used", "last good version used"],
)
async def test_nothing_is_said_of_policies_that_are_there_or_may_be(policies: TasPolicies) -> None:
    assert await looked(policies) == []


async def test_a_pod_whose_policy_is_refused_is_told_that_and_not_that_it_is_missing() -> None:
    (event,) = await looked(REFUSED)
    assert (event.reason, event.warning) == ("TelemetryPolicyRefused", True)
    assert event.note == (
        "label telemetry-policy names TASPolicy ns/gone, of which no version can be used;"
        " the pod is scheduled without a policy; correct the policy; its status names the field"
    )
