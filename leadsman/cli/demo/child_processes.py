"""The demo's child processes: started, watched, and ended with the demo."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from leadsman.testbed.etcd import die_with_parent

_STOP_WITHIN_SECONDS = 5


class ChildProcesses(AbstractContextManager["ChildProcesses"]):
    """Runs `leadsman ARGUMENTS` children. On exit all are ended, the last first, and their logs deleted.

    folder: holds the logs.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="leadsman-demo-"))
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, arguments: Sequence[str], prefix: Sequence[str] = ()) -> None:
        """Starts a child. prefix: runs the command elsewhere, such as `ip netns exec NAME`."""
        command = [*prefix, sys.executable, "-m", "leadsman.cli.main", *arguments]
        # The viewer's own LEADSMAN_ variables are about another cluster.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LEADSMAN_")}
        with (self.folder / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C reaches the demo alone, which ends its children in order.
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environ, start_new_session=True, preexec_fn=die_with_parent
            )

    def kill(self, name: str) -> None:
        """Kills a child, which is then no unexpected exit."""
        child = self._running.pop(name)
        child.kill()
        child.wait()

    def first_exit(self) -> str:
        """The first child that exited, with the end of its log; "" when all run."""
        name = next((name for name, child in self._running.items() if child.poll() is not None), None)
        return "" if name is None else f"{name} exited unexpectedly: {self.log_tail(name)}"

    def log_tail(self, name: str) -> str:
        """The end of a child's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:].strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        children = list(reversed(self._running.values()))
        for child in children:
            child.terminate()
        for child in children:
            _wait(child)
        shutil.rmtree(self.folder, ignore_errors=True)


def _wait(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(_STOP_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
