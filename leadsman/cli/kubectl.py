"""Runs kubectl as a subprocess: the operator's own access to the cluster, with whatever signs in behind it."""

import argparse
import contextlib
import json
import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import namespace_name

_TIMEOUT_SECONDS = 30


class KubectlError(CommandFailed):
    """kubectl is missing or fails; the text has its own words."""


def options(add: Options) -> None:
    """Adds flags that name the cluster as kubectl's own do."""
    group = add.group("the cluster, when it is reached through kubectl")
    group.parser.add_argument("--kubeconfig", help="kubectl's kubeconfig (default: kubectl's own)", metavar="FILE")
    group.parser.add_argument(
        "--context", help="the context of the kubeconfig (default: its current one)", metavar="NAME"
    )
    group.argument("extender-namespace", "namespace of the extender", "leadsman", namespace_name)


class Kubectl:
    """Calls kubectl with the same flags of access each time."""

    def __init__(self, flags: Sequence[str] = (), program: str = "kubectl") -> None:
        self._command = [program, *flags]

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Kubectl":
        """Makes one with the flags of `options`."""
        named = {"--kubeconfig": args.kubeconfig, "--context": args.context}
        return cls([f"{flag}={value}" for flag, value in named.items() if value])

    def text(self, *arguments: str) -> str:
        """Returns what kubectl prints. KubectlError with its own words when it fails."""
        done = self._run(arguments)
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {_last_line(done.stderr)}")
        return done.stdout

    def may(self, service_account: str, verb: str, resource: str) -> bool:
        """Tells whether the account, NAMESPACE:NAME, may do this everywhere. Raises KubectlError when nobody can
        tell."""
        account = f"--as=system:serviceaccount:{service_account}"
        done = self._run(("auth", "can-i", verb, resource, "--all-namespaces", account))
        answer = done.stdout.strip().partition(" ")[0]
        # It says no with exit code 1, as it does when it fails.
        if answer not in ("yes", "no"):
            raise KubectlError(f"kubectl auth can-i: {_last_line(done.stderr)}")
        return answer == "yes"

    def _run(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                [*self._command, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
            )
        except FileNotFoundError:
            raise KubectlError(
                "kubectl is not installed; install it, or name the extender with --extender URL"
            ) from None
        except subprocess.TimeoutExpired:
            raise KubectlError(f"kubectl {' '.join(arguments)} took more than {_TIMEOUT_SECONDS} s") from None

    def json(self, *arguments: str) -> Any:
        """Returns what kubectl prints with `-o json`."""
        return json.loads(self.text(*arguments, "-o", "json"))

    def namespace(self) -> str:
        """Returns the namespace of the kubeconfig's context."""
        return self.text("config", "view", "--minify", "-o", "jsonpath={..namespace}").strip() or "default"

    def become(self, *arguments: str) -> NoReturn:
        """Replaces this process by kubectl, whose exit code and signals are then the command's."""
        os.execvp(self._command[0], [*self._command, *arguments])

    @contextlib.contextmanager
    def port_forward(self, namespace: str, pod: str, port: int) -> Iterator[int]:
        """Forwards a port of 127.0.0.1 to the pod's until the block ends, and yields it."""
        command = [*self._command, "port-forward", "-n", namespace, f"pod/{pod}", f":{port}", "--address=127.0.0.1"]
        readers: list[threading.Thread] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as forward:
            try:
                assert forward.stdout
                assert forward.stderr
                line = forward.stdout.readline()
                bound = re.search(r"127\.0\.0\.1:(\d+) ->", line)
                if bound is None:
                    forward.terminate()
                    raise KubectlError(f"kubectl port-forward to {pod}: {_last_line(line + forward.stderr.read())}")
                for pipe in (forward.stdout, forward.stderr):  # kubectl writes a line for each connection
                    readers.append(threading.Thread(target=deque, args=(pipe, 0), daemon=True))
                    readers[-1].start()
                yield int(bound[1])
            finally:
                forward.terminate()
                for reader in readers:  # before the pipes are closed, which a reader does not survive
                    reader.join()


def is_ready(found: Mapping[str, Any]) -> bool:
    """Tells whether a pod or a node, as the API server has it, is Ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"].get("conditions", ()))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
