"""Pods that name a telemetry policy which does not exist get one Event."""

from typing import Any

import pytest

from controller.policies import GRACE_SECONDS, MissingPolicyReporter
from leadsman.decision.inputs import RefusedPolicy, TasPolicies
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, TasPolicy
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata
from leadsman.runtime.token_bucket import TokenBucket
from tests.controller.followed import Told, listed, tools

NOTE = (
    "label telemetry-policy names TASPolicy ns/gone, which does not exist;"
    " the pod is scheduled without a policy; create the policy or correct the label"
)
NONE = TasPolicies(loaded=True)
REFUSED = TasPolicies(refused={PolicyKey("ns", "gone"): RefusedPolicy(PolicyProblem("spec", "bad"))}, loaded=True)


def pod(name: str = "p", policy: str = "gone", uid: str = "u1", **more: Any) -> ObjectMeta:
    return ObjectMeta(name, "ns", uid, labels=BoundedLabels({"telemetry-policy": policy}), **more)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def now() -> list[float]:
    return [100.0]


class Rounds:
    """rounds(pods, policies): again and again, for longer than a policy may be late."""

    def __init__(self, told, now):
        self.told, self.now = told, now
        self.pods, self.policies = listed({}), NONE
        given, rate = tools(None, told, clock=lambda: now[0]), TokenBucket(1e-9, 3)
        self.missing = MissingPolicyReporter(given, self.pods, lambda: self.policies, rate)

    async def __call__(self, pods, policies=NONE, seconds=2 * GRACE_SECONDS):
        self.pods.current = {number: PartialObjectMetadata(pod) for number, pod in enumerate(pods)}
        self.policies = policies
        for _ in range(int(seconds)):
            await self.missing.turn()
            self.now[0] += 1
        return self.told.events


@pytest.fixture
def looked(told: Told, now: list[float]) -> Rounds:
    return Rounds(told, now)


async def test_it_is_told_once_on_the_pod_with_the_policy_s_name(looked: Rounds) -> None:
    (event,) = await looked([pod()])
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
async def test_nothing_is_said_of_policies_that_are_there_or_may_be(looked: Rounds, policies) -> None:
    assert await looked([pod()], policies) == []


async def test_a_pod_whose_policy_is_refused_is_told_that_and_not_that_it_is_missing(looked: Rounds) -> None:
    (event,) = await looked([pod()], REFUSED)
    assert (event.reason, event.warning) == ("TelemetryPolicyRefused", True)
    assert event.note == (
        "label telemetry-policy names TASPolicy ns/gone, of which no version can be used;"
        " the pod is scheduled without a policy; correct the policy; its status names the field"
    )
