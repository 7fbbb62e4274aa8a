"""Starts a user namespace in which a plain user may build network namespaces: user_namespaces(7).

    if user_namespace.why_unavailable() is None:
        user_namespace.restart_inside([sys.executable, "-m", "package", *arguments])   # does not return

Inside, the user is root over a network of its own without any device but `lo`, and /run is empty.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import NoReturn

from leadsman.testbed.forwarder import DEVICE

INSIDE_VARIABLE = "LEADSMAN_USER_NAMESPACE"
"""Set for a command that was restarted inside. For this module alone; no setting."""

_PREPARE = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
"""`ip netns` keeps its names in /run, which belongs to the real root."""


def why_unavailable() -> str | None:
    """Says why this user cannot build networks in a user namespace; None when a trial succeeds."""
    if is_inside():
        return "the user namespace does not allow it"
    if shutil.which("unshare") is None:
        return "no `unshare`: apt-get install util-linux"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} cannot be opened: sudo chmod 666 {DEVICE}"
    tried = subprocess.run(_command(["true"]), capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"user namespaces are refused ({' '.join(tried.stderr.split())})"


def restart_inside(command: Sequence[str]) -> NoReturn:
    """Replaces this process, under the same process id, by `command` in a user namespace."""
    inside = _command(command)
    os.execvpe(inside[0], inside, {**os.environ, INSIDE_VARIABLE: "1"})


def is_inside() -> bool:
    """Tells whether `restart_inside` started this process."""
    return INSIDE_VARIABLE in os.environ


def _command(command: Sequence[str]) -> list[str]:
    return ["unshare", "--map-root-user", "--net", "--mount", "sh", "-c", _PREPARE, "sh", *command]
