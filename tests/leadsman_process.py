"""A `leadsman` child process: started, asked, frozen, killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

import msgspec

from extender.api.decisions import DecisionDetail
from leadsman.cli.demo import scheduler_request
from leadsman.cli.explain import decision_text
from leadsman.testbed.etcd import die_with_parent
from tests.dockerfile import malloc_limits
from tests.waiting import blocked_until

PATIENCE_SECONDS = 30.0


class LeadsmanProcess:
    """Runs from construction on, and dies with the thread that constructed it.

    ops_url: /metrics, /healthz and /readyz. log: it is appended to. prefix: runs the command elsewhere, such as
    `ip netns exec NAME`. environ: added to this process's own and to the image's limits of malloc. program, cwd:
    another installation's command, and where it runs. api_url: of an extender's API for people.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        url: str,
        ops_url: str,
        log: Path,
        prefix: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "leadsman.cli.main"),
        cwd: Path | None = None,
        api_url: str = "",
    ) -> None:
        self.url, self.ops_url, self.api_url, self.log_file = url, ops_url, api_url, log
        command = [*prefix, *program, *arguments]
        with log.open("ab") as out:
            self.child = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                env={**os.environ, **malloc_limits("agent" if arguments[0] == "agent" else ""), **(environ or {})},
                cwd=cwd,
                preexec_fn=die_with_parent,
            )

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text. (0, why) when nobody answers."""
        ops, people = path in ("/metrics", "/healthz", "/readyz"), path.startswith("/api/")
        base = self.ops_url if ops else self.api_url if people else self.url
        try:
            with urlopen(base + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except URLError as error:
            read = getattr(error, "read", None)
            return getattr(error, "code", 0), read().decode() if read else str(error)

    def ready(self, within_seconds: float = 60.0) -> Self:
        """Itself, once it is."""
        blocked_until(lambda: self.get("/readyz")[0] == 200, f"{self.log_file.name}: ready", within_seconds)
        return self

    def post(self, verb: str, body: Any, timeout_seconds: float = 10.0) -> Any:
        """What an extender answers to kube-scheduler."""
        sent = Request(f"{self.url}/{verb}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(sent, timeout=timeout_seconds) as answer:
            return json.load(answer)

    def ask(self, verb: str, nodes: Sequence[str], labels: Mapping[str, str]) -> Any:
        """As `post`, about the captured pod with these labels."""
        return self.post(verb, scheduler_request.captured_args(list(nodes), dict(labels)))

    def api(self, path: str) -> Any:
        """What an extender's API has there; None when there is no answer yet."""
        status, text = self.get(f"/api/v1{path}")
        return json.loads(text) if status == 200 else None

    def nodes(self) -> dict[str, Any]:
        """What an extender has of each node."""
        state = self.api("/state")
        return dict(state["nodes"]) if state else {}

    def fresh(self) -> set[str]:
        """The nodes that an extender holds for fresh."""
        return {name for name, node in self.nodes().items() if node["status"] == "fresh"}

    def told(self, pod: str) -> str:
        """The decision on the pod, namespace/name, as `leadsman explain` prints it; "": there is none."""
        detail = self.api(f"/pods/{pod}")
        return decision_text(msgspec.convert(detail, DecisionDetail)) if detail else ""

    def metric(self, name: str) -> float:
        """The one sample of this name and these labels; 0 when there is none, NaN when nobody answers."""
        status, page = self.get("/metrics")
        if status != 200:
            return float("nan")
        lines = [line for line in page.splitlines() if line.startswith(f"{name} ")]
        return float(lines[0].removeprefix(name)) if lines else 0.0

    @property
    def peak_rss_bytes(self) -> int:
        """Since its start, or the last `forget_peak`; 0 when it has ended."""
        try:
            status = Path(f"/proc/{self.child.pid}/status").read_text("ascii")
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)

    def forget_peak(self) -> None:
        """Begins a new peak: proc_pid_clear_refs(5). No error when it has ended."""
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.child.pid}/clear_refs").write_text("5")

    def freeze(self) -> None:
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def stop(self) -> int:
        self.child.terminate()
        return self.child.wait(PATIENCE_SECONDS)
