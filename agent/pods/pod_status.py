"""Tells from its status whether a pod is healthy, is starting, or has finished. Pure."""

from collections.abc import Iterator

from agent.pods.container_exits import exit_count, exited_cleanly
from leadsman.kube.objects import ContainerStatus, Pod


def is_healthy(pod: Pod) -> bool:
    """Whether every container is running and ready or has completed, and at least one is running.

    One crashing container makes the pod unhealthy. A pod that is being deleted is not healthy.
    """
    states = pod.status.container_statuses
    running = [each for each in states if each.state.running is not None]
    fine = all(each.ready if each.state.running is not None else _is_completed(each) for each in states)
    return pod.status.phase == "Running" and not pod.terminating and bool(running) and fine


def is_starting(pod: Pod) -> bool:
    """Whether the pod is bound to the node and has not started.

    Not while an init container runs or after one failed, which are other cases. An init container that runs and is
    ready is a sidecar.
    """
    if pod.status.phase != "Pending" or pod.terminating or not pod.spec.node_name:
        return False
    return not any((each.state.running and not each.ready) or exit_count(each) for each in all_containers(pod))


def is_never_ready(pod: Pod) -> bool:
    """Whether the pod's containers run and one has not been ready since it started.

    The kubelet sets the condition Ready to False before it starts a container. One that was lost later is younger. A
    pod whose container has ended has another incident.
    """
    if pod.status.phase != "Running" or pod.terminating or any(map(exit_count, all_containers(pod))):
        return False
    waiting = [each.state.running for each in pod.status.container_statuses if each.state.running and not each.ready]
    since = next((each.last_transition_time for each in pod.status.conditions if each.type == "Ready"), None)
    return since is not None and any(run.started_at is not None and since <= run.started_at for run in waiting)


def all_containers(pod: Pod) -> Iterator[ContainerStatus]:
    """The status of every container, init containers first: one of them that fails keeps the pod from running too."""
    yield from pod.status.init_container_statuses
    yield from pod.status.container_statuses


def run_seconds(pod: Pod) -> float | None:
    """From the first container's start to the last one's end, on the kubelet's clock; None unless the pod succeeded."""
    over = [each.state.terminated for each in pod.status.container_statuses if each.state.terminated]
    began = [end.started_at for end in over if end.started_at]
    finished = [end.finished_at for end in over if end.finished_at]
    if pod.status.phase != "Succeeded" or not began or not finished:
        return None
    return max(0.0, (max(finished) - min(began)).total_seconds())


def _is_completed(container: ContainerStatus) -> bool:
    return container.state.terminated is not None and exited_cleanly(container.state.terminated)
