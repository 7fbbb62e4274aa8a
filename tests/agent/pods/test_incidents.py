"""What went wrong with a pod, from its status alone."""

from typing import TYPE_CHECKING

import pytest

from agent.pods.incidents import PHASE_MARK, READY_MARK, START_MARK, find_incidents
from leadsman.rewards.incident_causes import IncidentCause

if TYPE_CHECKING:
    from tests.agent.pods.conftest import Given


def found(pod, stuck=False, unready=False):
    return {each.mark: (each.total, each.cause) for each in find_incidents(pod, stuck, unready)}


def test_a_running_pod_that_never_ended_has_none(given: "type[Given]") -> None:
    assert found(given.pod("Running", given.running())) == {}


@pytest.mark.parametrize(
    ("exit_code", "reason", "cause"),
    [
        (1, "Error", IncidentCause.CRASH),
        (137, "OOMKilled", IncidentCause.OOM),
        (0, "Completed", None),
        (143, "Error", IncidentCause.CRASH),
    ],
)
def test_a_restart_has_the_cause_of_the_end_before_it(given: "type[Given]", exit_code: int, reason: str, cause) -> None:
    assert found(given.pod("Running", given.restarted(3, exit_code, reason))) == {"app": (3, cause)}


def test_one_end_is_one_total_through_crash_back_off_and_restart(given: "type[Given]") -> None:
    """terminated → CrashLoopBackOff → running again: the same end all the while."""
    end = given.ended(1)
    states = [
        {"ready": False, "state": end, "restartCount": 2},
        given.waiting("CrashLoopBackOff", **end) | {"restartCount": 2},
        given.restarted(3),
    ]
    assert [found(given.pod("Running", state))["app"] for state in states] == [(3, IncidentCause.CRASH)] * 3


def test_of_three_containers_one_that_crashes_is_the_one_incident(given: "type[Given]") -> None:
    pod = given.pod("Running", given.running(), given.running(), given.restarted(1))
    assert found(pod) == {"third": (1, IncidentCause.CRASH)}


def test_the_first_of_three_that_crashes_is_not_hidden_by_the_last(given: "type[Given]") -> None:
    pod = given.pod("Running", given.restarted(1), given.running(), given.running())
    assert found(pod) == {"app": (1, IncidentCause.CRASH)}


def test_an_init_container_that_fails_counts(given: "type[Given]") -> None:
    crashing = given.waiting("CrashLoopBackOff", **given.ended(1)) | {"restartCount": 4}
    pod = given.pod("Pending", given.waiting("PodInitializing"), init=[crashing])
    assert found(pod, stuck=True) == {"init-0": (5, IncidentCause.CRASH)}


def test_a_finished_job_has_none(given: "type[Given]") -> None:
    done = {"ready": False, "state": given.ended(0, "Completed")}
    assert found(given.pod("Succeeded", done, init=[done])) == {}


def test_a_failed_job_s_container_is_the_incident_and_not_its_phase_too(given: "type[Given]") -> None:
    assert found(given.pod("Failed", {"state": given.ended(2)})) == {"app": (1, IncidentCause.CRASH)}


def test_an_evicted_pod_is_one_incident_however_its_containers_ended(given: "type[Given]") -> None:
    pod = given.pod("Failed", {"state": given.ended(137)}, reason="Evicted", message="The node was low on resource")
    assert found(pod) == {PHASE_MARK: (1, IncidentCause.EVICTED)}


def test_a_pod_that_failed_for_no_known_reason_is_a_failed_phase(given: "type[Given]") -> None:
    assert found(given.pod("Failed", reason="UnexpectedAdmissionError")) == {
        PHASE_MARK: (1, IncidentCause.FAILED_PHASE)
    }


@pytest.mark.parametrize("reason", ["Preempting", "NodeShutdown", "Terminated"])
def test_a_pod_that_went_for_another_s_sake_is_no_failure(given: "type[Given]", reason: str) -> None:
    assert found(given.pod("Failed", reason=reason)) == {PHASE_MARK: (1, None)}


def test_containers_stopped_by_a_deletion_are_no_incident(given: "type[Given]") -> None:
    assert found(given.pod("Running", {"state": given.ended(143)}, deleted=True)) == {}


def test_a_pod_that_is_stuck_has_one(given: "type[Given]") -> None:
    pod = given.pod("Pending", given.waiting())
    assert found(pod, stuck=True) == {START_MARK: (1, IncidentCause.START_STUCK)}
    assert found(pod, stuck=False) == {}


def test_a_pod_whose_init_container_works_is_not_stuck(given: "type[Given]") -> None:
    pod = given.pod("Pending", given.waiting("PodInitializing"), init=[given.running(ready=False)])
    assert found(pod, stuck=True) == {}


def test_a_sidecar_that_runs_does_not_hide_that_the_pod_is_stuck(given: "type[Given]") -> None:
    pod = given.pod("Pending", given.waiting("ErrImagePull"), init=[given.running(ready=True)])
    assert START_MARK in found(pod, stuck=True)


@pytest.mark.parametrize(
    ("exit_code", "reason", "doubtful"),
    [
        (0, "Completed", True),
        (137, "Error", True),
        (143, "Error", True),
        (1, "Error", False),
        (137, "OOMKilled", False),
    ],
)
def test_events_are_worth_asking_for_only_when_a_probe_may_have_ended_it(
    given: "type[Given]", exit_code: int, reason: str, doubtful: bool
) -> None:
    (only,) = find_incidents(given.pod("Running", given.restarted(1, exit_code, reason)))
    assert only.needs_events is doubtful


def test_a_pod_that_runs_and_was_never_ready_has_one(given: "type[Given]") -> None:
    pod = given.pod("Running", given.running(ready=False), unready_since="2026-03-01T11:59:59Z")
    assert found(pod, unready=True) == {READY_MARK: (1, IncidentCause.NEVER_READY)}
    assert found(pod) == {}


def test_a_pod_that_was_ready_before_is_none(given: "type[Given]") -> None:
    pod = given.pod("Running", given.running(ready=False), unready_since="2026-03-01T13:00:00Z")
    assert found(pod, unready=True) == {}


def test_of_a_pod_that_crashes_and_is_not_ready_the_crash_alone_counts(given: "type[Given]") -> None:
    pod = given.pod("Running", given.restarted(1) | {"ready": False}, unready_since="2026-03-01T11:59:59Z")
    assert found(pod, unready=True) == {"app": (1, IncidentCause.CRASH)}
