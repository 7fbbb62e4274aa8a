"""What went wrong with a pod, from its status alone."""

import pytest

from agent.pods.incidents import PHASE_MARK, READY_MARK, START_MARK, find_incidents
from leadsman.rewards.incident_causes import IncidentCause
from tests.agent.pods import given

CRASH = IncidentCause.CRASH
NEVER_READY = {"unready_since": "2026-03-01T11:59:59Z"}


def found(pod, stuck=True, unready=True):
    return {each.mark: (each.total, each.cause) for each in find_incidents(pod, stuck, unready)}


def pods():
    """Name → a pod, and its incidents when it has been starting, or running without being ready, for too long."""
    up, working = given.running(), given.running(ready=False)
    done = {"ready": False, "state": given.ended(0, "Completed")}
    looping = given.waiting("CrashLoopBackOff", **given.ended(1)) | {"restartCount": 4}
    starting = given.waiting("PodInitializing")
    return {
        "runs": (given.pod("Running", up), {}),
        "the first of three crashed": (given.pod("Running", given.restarted(1), up, up), {"app": (1, CRASH)}),
        "the last of three crashed": (given.pod("Running", up, up, given.restarted(1)), {"third": (1, CRASH)}),
        "an init container fails": (given.pod("Pending", starting, init=[looping]), {"init-0": (5, CRASH)}),
        "a job that is done": (given.pod("Succeeded", done, init=[done]), {}),
        "a job that failed": (given.pod("Failed", {"state": given.ended(2)}), {"app": (1, CRASH)}),
        "evicted": (
            given.pod("Failed", {"state": given.ended(137)}, reason="Evicted"),
            {PHASE_MARK: (1, IncidentCause.EVICTED)},
        ),
        "failed for an unknown reason": (
            given.pod("Failed", reason="UnexpectedAdmissionError"),
            {PHASE_MARK: (1, IncidentCause.FAILED_PHASE)},
        ),
        **{
            f"gone for another's sake: {reason}": (given.pod("Failed", reason=reason), {PHASE_MARK: (1, None)})
            for reason in ("Preempting", "NodeShutdown", "Terminated")
        },
        "stopped by a deletion": (given.pod("Running", {"state": given.ended(143)}, deleted=True), {}),
        "stuck": (given.pod("Pending", given.waiting()), {START_MARK: (1, IncidentCause.START_STUCK)}),
        "an init container works": (given.pod("Pending", starting, init=[working]), {}),
        "stuck beside a sidecar": (
            given.pod("Pending", given.waiting("ErrImagePull"), init=[up]),
            {START_MARK: (1, IncidentCause.START_STUCK)},
        ),
        "never ready": (
            given.pod("Running", working, **NEVER_READY),
            {READY_MARK: (1, IncidentCause.NEVER_READY)},
        ),
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
        (137, "OOMKilled", IncidentCause.OOM, False),
        # A probe may have ended it.
        (0, "Completed", None, True),
        (137, "Error", CRASH, True),
        (143, "Error", CRASH, True),
    ],
)
def test_a_restart_has_the_cause_of_the_end_before_it(exit_code: int, reason: str, cause, needs_events: bool) -> None:
    (only,) = find_incidents(given.pod("Running", given.restarted(3, exit_code, reason)))
    assert (only.mark, only.total, only.cause, only.needs_events) == ("app", 3, cause, needs_events)
