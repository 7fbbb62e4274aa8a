"""How a container's runs ended: how often, and what the last end was. Pure.

A container's run number n (from 0) is over once restartCount is above n, or once it is n and the state no longer runs.
So the count only grows, and whoever remembers how many ends he counted counts each once, however often and however
late he looks.
"""

from apiserver.objects import ContainerStatus, Terminated

OUT_OF_MEMORY = "OOMKilled"

_KILLED = 128


def ends(container: ContainerStatus) -> int:
    """Ends so far. A last run that finished well is none until a restart follows: it may just be done."""
    over = _current_end(container)
    return container.restart_count + (over is not None and not went_well(over))


def last_end(container: ContainerStatus) -> Terminated | None:
    """None when no run has ended, or when the kubelet no longer knows how."""
    return _current_end(container) or container.last_state.terminated


def went_well(end: Terminated) -> bool:
    return end.exit_code == 0 and end.signal == 0 and end.reason != OUT_OF_MEMORY


def may_be_a_probe_s(end: Terminated) -> bool:
    """A kill for a failed probe looks like any other stop: the process obeyed (0), or died of the signal."""
    return end.reason != OUT_OF_MEMORY and (went_well(end) or end.signal != 0 or end.exit_code > _KILLED)


def _current_end(container: ContainerStatus) -> Terminated | None:
    """Of the run that restartCount numbers. While it waits to be restarted, that run is the last one."""
    if container.state.terminated is not None:
        return container.state.terminated
    return container.last_state.terminated if container.state.waiting is not None else None
