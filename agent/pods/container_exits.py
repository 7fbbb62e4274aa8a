"""Counts how often a container exited, and finds its last exit. Pure.

A container's run number n (from 0) is over once restartCount is above n, or once it is n and the state no longer runs.
So the count only grows, and a reader that remembers its last count counts each exit once, however often and late it
looks.
"""

from leadsman.kube.objects import ContainerStateTerminated, ContainerStatus

OOM_KILLED = "OOMKilled"

_SIGNAL_EXIT_BASE = 128


def exit_count(container: ContainerStatus) -> int:
    """Exits so far. A clean exit of the last run counts only once a restart follows: the container may be done."""
    current = _current_exit(container)
    return container.restart_count + (current is not None and not exited_cleanly(current))


def last_exit(container: ContainerStatus) -> ContainerStateTerminated | None:
    """How the last run ended; None when none has ended, or when the kubelet no longer knows."""
    return _current_exit(container) or container.last_state.terminated


def exited_cleanly(end: ContainerStateTerminated) -> bool:
    return end.exit_code == 0 and end.signal == 0 and end.reason != OOM_KILLED


def may_be_probe_kill(end: ContainerStateTerminated) -> bool:
    """A kill for a failed probe looks like any other stop: the process obeyed (0), or died of the signal."""
    return end.reason != OOM_KILLED and (exited_cleanly(end) or end.signal != 0 or end.exit_code > _SIGNAL_EXIT_BASE)


def _current_exit(container: ContainerStatus) -> ContainerStateTerminated | None:
    """The exit of the run that restartCount numbers. While the container waits for a restart, that is its last run."""
    if container.state.terminated is not None:
        return container.state.terminated
    return container.last_state.terminated if container.state.waiting is not None else None
