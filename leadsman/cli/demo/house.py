"""Houses what the demos share: the nodes' network, an etcd and `leadsman` processes, and the page that shows them.

The page's address is printed before anything starts. Everything that is started ends with the demo.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

from leadsman.runtime.text_table import unescaped
from leadsman.testbed import user_namespace, virtual_network
from leadsman.testbed.etcd import Etcd, die_with_parent, free_ports
from leadsman.testbed.virtual_network import Uplinks, VirtualNetwork

_STOP_WITHIN_SECONDS = 5
_PAGE_VARIABLE = "LEADSMAN_DEMO_PAGE"
"""The file descriptor of the page's socket, for a demo that started again in a user namespace."""


class DemoFailed(Exception):
    """A part of the demo did not work; the text says which, with the end of its log."""


def say(text: str, for_now: bool = False) -> None:
    """Shows progress on stderr, so that stdout is the result alone. for_now: a terminal shows the next over it."""
    if not for_now or sys.stderr.isatty():
        print(text, end="\r" if for_now else "\n", file=unescaped(sys.stderr), flush=True)


def why_only_loopback(demo: str) -> str | None:
    """Says why the nodes cannot have a network of their own here; None when they can.

    For a plain user who may make a user namespace, the demo starts again in one, and this does not return.
    """
    missing = virtual_network.why_unavailable()
    if missing is None or virtual_network.may_administer():
        return missing
    refused = user_namespace.why_unavailable()
    if refused is None:
        user_namespace.restart_inside([sys.executable, "-m", "leadsman.cli.main", "demo", demo])
    return f"{missing}; as this user: {refused}"


class PageAddress:
    """Opens the page's socket on the viewer's own network, before the extender is there.

    A user namespace has a network of its own, which no browser reaches; a socket stays where it was opened.
    """

    def __init__(self) -> None:
        if given := os.environ.pop(_PAGE_VARIABLE, ""):
            self._listening = socket.socket(fileno=int(given))
        else:
            self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.set_inheritable(True)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        if not given:
            say(f"page       {self.url}/  (open it now: it fills as the demo goes on)")
        os.environ[_PAGE_VARIABLE] = str(self._listening.fileno())

    def lead_to(self, port: int) -> None:
        """Forwards connections, also those that wait already, to this port of our own loopback address from now on."""
        threading.Thread(target=self._accept, args=(port,), name="page", daemon=True).start()

    def _accept(self, port: int) -> None:
        while True:
            client, _ = self._listening.accept()
            threading.Thread(target=_join, args=(client, port), daemon=True).start()


def _join(client: socket.socket, port: int) -> None:
    """Joins the connection to one of its own to the port, on which nobody listens yet where a browser was quick."""
    while True:
        try:
            server = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.2)
    threading.Thread(target=_copy, args=(server, client), daemon=True).start()
    _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class House(AbstractContextManager["House"]):
    """Runs a cluster's nodes, an etcd and `leadsman ARGUMENTS` children. On exit all are ended, the last first, and
    their logs deleted.

    net: the nodes' network; None: they are loopback addresses.
    api: URL of the extender's API; "" before it is started.
    """

    def __init__(self, page: PageAddress, nodes: Sequence[str], rtt_ms: Mapping[tuple[str, str], float] | None) -> None:
        """rtt_ms: between any two nodes, which have network namespaces then."""
        self.net: VirtualNetwork | None = None
        self.api, self._page, self._nodes, self._rtt_ms = "", page, nodes, rtt_ms
        self._folder = Path(tempfile.mkdtemp(prefix="leadsman-demo-"))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "House":
        """Raises NetworkFailed when a step is refused."""
        with self._stack as stack:
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            addresses = ["127.0.0.1"]
            if self._rtt_ms is not None:
                self.net = stack.enter_context(VirtualNetwork(self._nodes, self._rtt_ms))
                addresses.append(stack.enter_context(Uplinks(self.net)).local_address)
            etcd = Etcd(self._folder / "etcd")
            etcd.flags = (f"--listen-client-urls={','.join(f'http://{each}:{etcd.port}' for each in addresses)}",)
            self.etcd_url = stack.enter_context(etcd).client_url
            self._etcd_url_of_nodes = f"http://{addresses[-1]}:{etcd.port}"
            stack.callback(self._end_children)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, name: str, arguments: Sequence[str], prefix: Sequence[str] = ()) -> None:
        """Starts a child. prefix: runs the command elsewhere, such as `ip netns exec NAME`."""
        command = [*prefix, sys.executable, "-m", "leadsman.cli.main", *arguments]
        # The viewer's own LEADSMAN_ variables are about another cluster.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LEADSMAN_")}
        with (self._folder / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C reaches the demo alone, which ends its children in order.
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environ, start_new_session=True, preexec_fn=die_with_parent
            )

    def start_agents(self, *flags: str) -> None:
        """Starts each node's agent, which reports each second, so that a viewer waits seconds."""
        often = ["--etcd", self._etcd_url_of_nodes, "--push-interval-seconds=1", "--call-timeout-seconds=1"]
        (port,) = free_ports(1)
        for number, node in enumerate(self._nodes, start=1):
            address, listen, prefix = f"127.0.9.{number}", f"127.0.9.{number}:{port}", list[str]()
            if self.net:
                address, listen, prefix = self.net.address(node), "0.0.0.0:9102", self.net.command(node, ())
            where = ["--node-name", node, "--address", address, "--listen", listen]
            self.start(f"agent-{node}", ["agent", *where, *often, *flags], prefix)

    def start_extender(self, *flags: str) -> str:
        """Starts the extender with its page, and returns the URL for kube-scheduler."""
        port, ops, people = free_ports(3)
        listen = [f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops}", f"--api-listen=127.0.0.1:{people}"]
        self.start(
            "extender", ["extender", "--plain-http", "--drain-seconds=0", *listen, "--etcd", self.etcd_url, *flags]
        )
        self.api = f"http://127.0.0.1:{people}"
        self._page.lead_to(people)
        return f"http://127.0.0.1:{port}"

    def wait_until(
        self, condition: Callable[[], object], what: str, seconds: float, log: str = "extender", pause: float = 0.1
    ) -> None:
        """Waits for a condition. DemoFailed says what did not happen, with the end of a child's log."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"not within {seconds:g} s: {what}. Log of the {log}:\n{self._log_tail(log)}")
            time.sleep(pause)

    def stay(self, *commands: str, step: Callable[[], object] = lambda: None) -> None:
        """Stays on a terminal until Ctrl-C, the usual end. commands: to try meanwhile. step: called often."""
        if not sys.stdout.isatty():
            return
        own = shutil.which("leadsman") or f"{sys.executable} -m leadsman.cli.main"
        print("\nThe cluster keeps running; Ctrl-C ends it and leaves nothing behind. Try:", flush=True)
        for command in commands:
            print(f"  {own} {command} --extender {self._page.url}", flush=True)
        with suppress(KeyboardInterrupt):
            while True:
                self.check()
                step()
                time.sleep(0.1)
        say("\nstopped; nothing is left running")

    def kill(self, name: str) -> None:
        """Kills a child, whose exit is then expected."""
        child = self._running.pop(name)
        child.kill()
        child.wait()

    def check(self) -> None:
        """Raises DemoFailed when a child exited, with the end of its log."""
        for name, child in self._running.items():
            if child.poll() is not None:
                raise DemoFailed(f"{name} exited unexpectedly: {self._log_tail(name)}")

    def _log_tail(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-2000:].strip()

    def _end_children(self) -> None:
        children = list(reversed(self._running.values()))
        for child in children:
            child.terminate()
        for child in children:
            try:
                child.wait(_STOP_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
