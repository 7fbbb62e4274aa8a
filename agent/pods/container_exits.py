"""How a container's runs ended: how often, and what the last end was. Pure.

A container's run number n (from 0) is over once restartCount is above n, or once it is n and the state no longer runs.
So the count only grows, and whoever remembers how many ends he counted counts each once, however often and however
late he looks.
"""

from leadsman.kube.objects import ContainerStateTerminated, ContainerStatus

OOM_KILLED = "OOMKilled"

_SIGNAL_EXIT_BASE = 128


def exit_count(container: ContainerStatus) -> int:
    """Ends so far. A last run that finished well is none until a restart follows: it may just be done."""
    over = _current_exit(container)
    return container.restart_count + (over is not None and not exited_cleanly(over))


def last_exit(container: ContainerStatus) -> ContainerStateTerminated | None:
    """None when no run has ended, or when the kubelet no longer knows how."""
    return _current_exit(container) or container.last_state.terminated


def exited_cleanly(end: ContainerStateTerminated) -> bool:
    return end.exit_code == 0 and end.signal == 0 and end.reason != OOM_KILLED


def may_be_probe_kill(end: ContainerStateTerminated) -> bool:
    """A kill for a failed probe looks like any other stop: the process obeyed (0), or died of the signal."""
    return end.reason != OOM_KILLED and (exited_cleanly(end) or end.signal != 0 or end.exit_code > _SIGNAL_EXIT_BASE)


def _current_exit(container: ContainerStatus) -> ContainerStateTerminated | None:
    """Of the run that restartCount numbers. While it waits to be restarted, that run is the last one."""
    if container.state.terminated is not None:
        return container.state.terminated
    return container.last_state.terminated if container.state.waiting is not None else None
