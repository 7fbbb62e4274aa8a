"""Pods with a delay bound get Events: for each thing that can be said of one that waits, and for a missed bound."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from controller.pods import (
    PATIENCE_SECONDS,
    RECHECK_SECONDS,
    REPEAT_SECONDS,
    UncheckedPodReporter,
    WaitingPodReporter,
    WatchedPod,
)
from controller.policies import FIRST_VALUES_SECONDS, GRACE_SECONDS, MissingPolicyReporter, PolicyStatusWriter
from leadsman.decision.inputs import TasPolicies, TelemetryInputs
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, RefusedPolicy, TasPolicy, build_status
from leadsman.kube.access import ApiAccess
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata
from leadsman.planning.bounded_pods import HOLD_SECONDS, BoundResult
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.telemetry.telemetry_sources import TASPOLICY_RESOURCE, BoundedJson, TasPolicyObject
from leadsman.testbed.api_objects import parse_path
from tests.controller.followed import Told, listed, node_cache, tools, waiting_pod
from tests.leadsman.decision.telemetry import tas
from tests.leadsman.planning.measured import measured
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
START = datetime(2026, 11, 22, 10, tzinfo=UTC)


def events(api: FakeApiServer) -> list[dict[str, Any]]:
    return list(api.objects.all(parse_path(EVENTS)))


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


async def test_a_pod_that_waits_gets_one_event_with_the_bound_and_the_nearest_node_and_one_more_when_that_is_another(
    api: FakeApiServer, recorder: EventWriter
) -> None:
    waiting = Waiting(api, recorder)
    await waiting.after(0.0)
    assert events(waiting.api) == []
    await waiting.after(PATIENCE_SECONDS)
    await until(lambda: len(events(waiting.api)) == 1)
    (event,) = events(waiting.api)
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("BoundWaiting", "Warning", "cart")
    assert "the nearest, near, is 12.5 ms away, 2.5 ms too far" in event["note"]
    for _ in range(3):
        waiting.rtt_ms["near"] += 1
        await waiting.after(RECHECK_SECONDS)
    waiting.rtt_ms = {"near": 90.0, "far": 80.0}
    await waiting.after(RECHECK_SECONDS)
    await until(lambda: recorder.written == 2)
    assert "the nearest, far, is 80 ms away" in events(waiting.api)[-1]["note"] + events(waiting.api)[0]["note"]
    queued = len(recorder._pending)
    await waiting.after(REPEAT_SECONDS)
    assert len(recorder._pending) == queued + 1, "said again when API servers have forgotten it"


# Pods that were bound against their bound get one Event; what they were looked at is counted.


def bound(node: str, labels: dict[str, str], **meta: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T10:00:00Z"}
    return {
        "metadata": {"labels": labels, "annotations": {"big": "x" * 1000}, **meta},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [scheduled]},
    }


class Sweeping:
    """A reporter that follows the API server, and the time."""

    def __init__(self, api: FakeApiServer, client: ApiClient, recorder: EventWriter | None) -> None:
        self.api, self.now = api, 100.0
        inputs = lambda: measured(self.now, {"edge-1": {"far": 80.0, "near": 5.0}})  # noqa: E731
        given = tools(client, recorder, inputs, clock=lambda: self.now, wall_clock=lambda: 1_795_341_601.0)
        self.reporter = UncheckedPodReporter(given)

    async def after(self, seconds: float) -> dict[BoundResult, int]:
        self.now += seconds
        await self.reporter.turn()
        return dict(self.reporter.results)


@pytest.fixture
async def sweeping(api: FakeApiServer, client: ApiClient, recorder: EventWriter) -> AsyncIterator[Sweeping]:
    api.put("/api/v1/namespaces/shop/pods/wrong", bound("far", {"delay_edge-1": "25"}))
    api.put("/api/v1/namespaces/shop/pods/right", bound("near", {"delay_edge-1": "25"}))
    api.put("/api/v1/namespaces/shop/pods/free", bound("far", {"app": "x"}))
    one = Sweeping(api, client, recorder)
    async with running(one.reporter.reflector.run()):
        await until(one.reporter.reflector.loaded.is_set)
        yield one


async def test_a_pod_that_was_bound_against_its_bound_gets_an_event_that_says_so(sweeping: Sweeping) -> None:
    assert await sweeping.after(0.0) == {BoundResult.KEPT: 1}
    assert await sweeping.after(HOLD_SECONDS) == {BoundResult.KEPT: 1, BoundResult.UNCHECKED: 1}
    await until(lambda: len(events(sweeping.api)) == 1)
    (event,) = events(sweeping.api)
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("BoundUnchecked", "Warning", "wrong")
    assert event["note"].startswith("bound to node far against its delay bound: 80 ms from edge-1")


async def test_a_pod_that_was_bound_well_gets_an_event_with_its_delay_where_that_is_switched_on(
    sweeping: Sweeping,
) -> None:
    sweeping.reporter._tells_placements = True
    await sweeping.after(0.0)
    await until(lambda: len(events(sweeping.api)) == 1)
    (event,) = events(sweeping.api)
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("BoundKept", "Normal", "right")
    assert event["note"].startswith("bound to node near: 5 ms from edge-1")


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


# A policy's status tells whether any node reports its metrics.


async def test_a_controller_that_has_just_started_takes_no_policy_for_one_without_metrics(api: FakeApiServer) -> None:
    """It has read no report yet: another replica, which had, wrote what stands there."""
    now, cool = 100.0, tas.policy(dontschedule=[tas.rule("heat", "GreaterThan")])
    path = TASPOLICY_RESOURCE.path(cool.key.namespace, cool.key.name)
    written = build_status(cool, None, None, "2026-01-01T00:00:00Z")
    api.put(path, {"status": written})
    policy = TasPolicyObject(ObjectMeta(cool.key.name, cool.key.namespace), status=BoundedJson(written))
    policies = TasPolicies({cool.key: cool}, loaded=True)
    inputs = structs.replace(measured(now, {}), telemetry=TelemetryInputs(policies))
    async with ApiClient(ApiAccess(api.url)) as client:
        given = tools(client, Told(), lambda: inputs, clock=lambda: now)
        writer = PolicyStatusWriter(given, lambda: {("ns", "cool"): policy})
        for _ in range(2):
            await writer.turn()
            reasons = [each["reason"] for each in api.objects.get(parse_path(path))["status"]["conditions"]]
            assert reasons == ["Accepted", "Active" if now == 100.0 else "NoMetrics"]
            now += FIRST_VALUES_SECONDS
