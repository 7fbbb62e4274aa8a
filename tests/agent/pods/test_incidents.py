"""What went wrong with a pod, from its status alone."""

import pytest

from agent.pods import incidents
from agent.pods.incidents import PHASE_MARK, READY_MARK, START_MARK, find_incidents
from leadsman.rewards.incident_causes import IncidentCause as Cause
from tests.agent.pods import given

CRASH = Cause.CRASH
NEVER_READY = {"unready_since": "2026-03-01T11:59:59Z"}


def found(pod, stuck=True, unready=True):
    return {each.mark: (each.total, each.cause) for each in find_incidents(pod, stuck, unready)}


def pods():
    """Name → a pod, and its incidents when it has been starting, or running without being ready, for too long."""
    up, working = given.running(), given.running(ready=False)
    done = {"ready": False, "state": given.ended(0, "Completed")}
    looping = given.waiting("CrashLoopBackOff", **given.ended(1)) | {"restartCount": 4}
    starting, stopped = given.waiting("PodInitializing"), {"state": given.ended(143)}
    return {
        "runs": (given.pod("Running", up), {}),
        "the first of three crashed": (given.pod("Running", given.restarted(1), up, up), {"app": (1, CRASH)}),
        "the last of three crashed": (given.pod("Running", up, up, given.restarted(1)), {"third": (1, CRASH)}),
        "an init container fails": (given.pod("Pending", starting, init=[looping]), {"init-0": (5, CRASH)}),
        "a job that is done": (given.pod("Succeeded", done, init=[done]), {}),
        "a job that failed": (given.pod("Failed", {"state": given.ended(2)}), {"app": (1, CRASH)}),
        "a job that is done, and its sidecar stopped": (given.pod("Succeeded", done, init=[stopped]), {}),
        "a job that failed, and its sidecar stopped": (
            given.pod("Failed", {"state": given.ended(2)}, init=[stopped]),
            {"app": (1, CRASH)},
        ),
        "evicted": (
            given.pod("Failed", {"state": given.ended(137)}, reason="Evicted"),
            {PHASE_MARK: (1, Cause.EVICTED)},
        ),
        "failed for an unknown reason": (given.pod("Failed", reason="New"), {PHASE_MARK: (1, Cause.FAILED_PHASE)}),
        **{
            f"gone for another's sake: {reason}": (given.pod("Failed", reason=reason), {PHASE_MARK: (1, None)})
            for reason in ("Preempting", "NodeShutdown", "Terminated")
        },
        "stopped by a deletion": (given.pod("Running", {"state": given.ended(143)}, deleted=True), {}),
        "stuck": (given.pod("Pending", given.waiting()), {START_MARK: (1, Cause.START_STUCK)}),
        "an init container works": (given.pod("Pending", starting, init=[working]), {}),
        "stuck beside a sidecar": (
            given.pod("Pending", given.waiting("ErrImagePull"), init=[up]),
            {START_MARK: (1, Cause.START_STUCK)},
        ),
        "never ready": (given.pod("Running", working, **NEVER_READY), {READY_MARK: (1, Cause.NEVER_READY)}),
        "ready before": (given.pod("Running", working, unready_since="2026-03-01T13:00:00Z"), {}),
        "crashed and not ready": (
            given.pod("Running", given.restarted(1) | {"ready": False}, **NEVER_READY),
            {"app": (1, CRASH)},
        ),
    }


def test_what_happened_to_a_pod_is_in_its_status() -> None:
    cases = pods()
    assert {name: found(pod) for name, (pod, _) in cases.items()} == {
        name: wanted for name, (_, wanted) in cases.items()
    }
    assert found(cases["stuck"][0], stuck=False) == found(cases["never ready"][0], unready=False) == {}


@pytest.mark.parametrize(
    ("exit_code", "reason", "cause", "needs_events"),
    [
        (1, "Error", CRASH, False),
        (137, "OOMKilled", Cause.OOM, False),
        # A probe may have ended it.
        (0, "Completed", None, True),
        (137, "Error", CRASH, True),
        (143, "Error", CRASH, True),
    ],
)
def test_a_restart_has_the_cause_of_the_end_before_it(exit_code: int, reason: str, cause, needs_events: bool) -> None:
    (only,) = find_incidents(given.pod("Running", given.restarted(3, exit_code, reason)))
    assert (only.mark, only.total, only.cause, only.needs_events) == ("app", 3, cause, needs_events)


# What the kubelet's words mean. Messages as Kubernetes 1.30 to 1.36 and containerd write them.

NO_IMAGE = (
    'Failed to pull image "registry.example/shop:nope": rpc error: code = NotFound desc = failed to pull image '
    '"registry.example/shop:nope": failed to resolve reference: registry.example/shop:nope: not found'
)
NO_REGISTRY = (
    'Failed to pull image "registry.example/shop:1.7": rpc error: code = Unavailable desc = failed to do request: Head '
    '"https://registry.example/v2/shop/manifests/1.7": dial tcp 10.9.9.9:443: i/o timeout'
)
REFUSED = (
    'resolve reference "ghcr.io/a/b:1": failed to authorize: failed to fetch anonymous token: unexpected status '
    "from GET request to https://ghcr.io/token?scope=repository%3Aa%2Fb%3Apull: 403 Forbidden",
    'failed to resolve reference "1.dkr.ecr.us-east-1.amazonaws.com/shop:1": pulling from host '
    "1.dkr.ecr.us-east-1.amazonaws.com failed with status code [manifests 1]: 403 Forbidden",
    "initializing source docker://ecr/shop:1: reading manifest 1: StatusCode: 403, ",
    "pinging container registry quay.example: invalid status code from registry 401 (Unauthorized)",
    'failed to do request: Head "https://nope.example/v2/": lookup nope.example on 10.96.0.10:53: no such host',
)


@pytest.mark.parametrize(
    ("reason", "message", "cause"),
    [
        ("FailedMount", 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32', Cause.VOLUME),
        ("FailedAttachVolume", "Multi-Attach error for volume: already exclusively attached", Cause.CLAIM_UNBOUND),
        ("FailedMount", 'persistentvolumeclaim "data" not found', Cause.CLAIM_UNBOUND),
        ("FailedMount", 'MountVolume.SetUp failed for volume "c" : configmap "shop" not found', Cause.CONFIG_ERROR),
        ("FailedCreatePodSandBox", "Failed to create pod sandbox: plugin type=calico failed (add)", Cause.SANDBOX),
        ("NetworkNotReady", "network is not ready: cni plugin not initialized", Cause.SANDBOX),
        ("Failed", NO_IMAGE, Cause.IMAGE_UNKNOWN),
        ("Failed", "Failed to pull image: pull access denied, repository does not exist", Cause.IMAGE_UNKNOWN),
        *(("Failed", f'Failed to pull image "shop:1.7": {said}', Cause.IMAGE_UNKNOWN) for said in REFUSED),
        ("Failed", NO_REGISTRY, Cause.IMAGE_PULL),
        ("SomethingNew", "what nobody knows", Cause.START_STUCK),
    ],
)
def test_why_a_pod_does_not_start(reason: str, message, cause) -> None:
    told = [given.warning(reason, message)]
    assert incidents.start_failure_cause(given.pod("Pending", given.waiting()), told) is cause


def test_the_newest_event_that_says_anything_decides() -> None:
    told = [
        given.warning("FailedMount", "timed out", at="2026-03-01T12:00:00Z"),
        given.warning("BackOff", "Back-off pulling image", at="2026-03-01T12:09:00Z"),
        given.warning("Failed", NO_IMAGE, at="2026-03-01T12:05:00Z"),
    ]
    assert incidents.start_failure_cause(given.pod("Pending", given.waiting()), told) is Cause.IMAGE_UNKNOWN


def end_of():
    return given.pod("Running", given.restarted(1, 137)).status.container_statuses[0].last_state.terminated


@pytest.mark.parametrize(
    ("message", "more", "cause"),
    [
        ("Liveness probe failed: HTTP probe failed with statuscode: 500", {}, Cause.PROBE_FAILURE),
        ("Startup probe failed: timeout", {}, Cause.PROBE_FAILURE),
        ("Readiness probe failed: connection refused", {}, None),
        ("Liveness probe failed: timeout", {"container": "sidecar"}, None),
        ("Liveness probe failed: timeout", {"at": "2026-03-01T11:00:00Z"}, None),
    ],
)
def test_a_container_killed_by_its_probe_did_not_crash(message: str, more, cause) -> None:
    told = given.warning("Unhealthy", message, **({"container": "app"} | more))
    assert incidents.container_exit_cause("app", end_of(), [told]) is cause
