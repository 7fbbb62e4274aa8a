"""What the demos share: their child processes, how an agent and the extender are started, and how they wait.

Everything that is started ends with the demo.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from leadsman.testbed.etcd import die_with_parent, free_ports

_STOP_WITHIN_SECONDS = 5


class DemoFailed(Exception):
    """A part of the demo did not work. The text says which, with the end of its log."""


def say(text: str, for_now: bool = False) -> None:
    """Shows progress on stderr, so that stdout is the result alone. for_now: a terminal shows the next over it."""
    if not for_now or sys.stderr.isatty():
        print(text, end="\r" if for_now else "\n", file=sys.stderr, flush=True)


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

    def start_agent(
        self,
        node: str,
        flags: Mapping[str, str],
        intervals_seconds: Mapping[str, float],
        prefix: Sequence[str] = (),
    ) -> None:
        """Starts a node's agent. Its intervals are shorter than in a cluster, so that a viewer waits seconds."""
        intervals = {f"{name}-seconds": f"{seconds:g}" for name, seconds in intervals_seconds.items()}
        given = {"node-name": node, **flags, **intervals}
        words = [word for name, value in given.items() for word in (f"--{name}", value)]
        self.start(f"agent-{node}", ["agent", *words], prefix)

    def start_extender(self, etcd_url: str, *flags: str) -> tuple[str, str, str]:
        """Starts the extender. Its URLs: for kube-scheduler, of its metrics, and of its API and page."""
        port, ops, people = free_ports(3)
        listen = [f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops}", f"--api-listen=127.0.0.1:{people}"]
        self.start("extender", ["extender", "--plain-http", "--drain-seconds=0", *listen, "--etcd", etcd_url, *flags])
        return f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ops}", f"http://127.0.0.1:{people}"

    def wait_until(
        self, condition: Callable[[], object], what: str, seconds: float, log: str = "extender", pause: float = 0.1
    ) -> None:
        """Waits for a condition. DemoFailed says what did not come, with the end of a child's log."""
        deadline = time.monotonic() + seconds
        while not condition():
            if exited := self.first_exit():
                raise DemoFailed(exited)
            if time.monotonic() > deadline:
                raise DemoFailed(f"not within {seconds:g} s: {what}. Log of the {log}:\n{self._log_tail(log)}")
            time.sleep(pause)

    def kill(self, name: str) -> None:
        """Kills a child, which is then no unexpected exit."""
        child = self._running.pop(name)
        child.kill()
        child.wait()

    def first_exit(self) -> str:
        """The first child that exited, with the end of its log; "" when all run."""
        name = next((name for name, child in self._running.items() if child.poll() is not None), None)
        return "" if name is None else f"{name} exited unexpectedly: {self._log_tail(name)}"

    def _log_tail(self, name: str) -> str:
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
