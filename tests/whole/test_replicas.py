"""Two extenders' processes that show each other's decisions: real TLS, one of them dead or frozen."""

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from msgspec import Struct

from extender.peers.client import ASK_SECONDS
from leadsman.cli.main import main
from leadsman.testbed.etcd import Etcd, free_ports
from tests.leadsman_process import PATIENCE_SECONDS, LeadsmanProcess
from tests.testbed.certificates import CertificateAuthority

HOST = "127.0.0.1"
ANSWER_WITHIN_SECONDS = 60
"""Of the test's patience; the extender's own deadline is in its words."""


class Pair(Struct):
    """Two extenders with a page each. pages, replica_ports: of each. folder: with the certificates."""

    extenders: list[LeadsmanProcess]
    pages: list[str]
    replica_ports: list[int]
    folder: Path

    def api(self, which: int, path: str) -> tuple[int, Any]:
        try:
            with urlopen(f"{self.pages[which]}/api/v1{path}", timeout=ANSWER_WITHIN_SECONDS) as response:
                return response.status, json.loads(response.read())
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def context(self, client: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        context.load_cert_chain(self.folder / f"{client}.crt", self.folder / f"{client}.key")
        return context

    def ask(self, port: int, path: str, client: str) -> int:
        """The status with the client's certificate."""
        request = Request(f"https://{HOST}:{port}{path}")
        with urlopen(request, timeout=ANSWER_WITHIN_SECONDS, context=self.context(client)) as response:
            return int(response.status)

    def decide(self, which: int, pod: str, **labels: str) -> None:
        """As kube-scheduler does, with its certificate."""
        meta = {"namespace": "shop", "name": pod, "uid": f"uid-{pod}", "labels": labels}
        body = json.dumps({"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": ["edge-1", "edge-2"]}).encode()
        request = Request(f"{self.extenders[which].url}/filter", data=body)
        with urlopen(request, timeout=ANSWER_WITHIN_SECONDS, context=self.context("client")) as response:
            assert response.status == 200


@contextmanager
def running_pair(folder: Path) -> Iterator[Pair]:
    """Two that have decided on one pod each. folder: a new one."""
    tls = folder / "tls"
    tls.mkdir(parents=True)
    authority = CertificateAuthority()
    (tls / "ca.crt").write_text(authority.pem)
    for name, names in {"server": (HOST,), "tls": (HOST,), "client": ("kube-scheduler",)}.items():
        authority.issue(*names).write(tls, name)
    with Etcd(folder / "etcd") as etcd, ExitStack() as stack:
        ports = free_ports(8)
        listen, ops, replica_ports, pages = (ports[at : at + 2] for at in (0, 2, 4, 6))
        extenders = []
        for at in range(2):
            arguments = [
                "extender",
                f"--etcd={etcd.client_url}",
                f"--listen={HOST}:{listen[at]}",
                f"--ops-listen={HOST}:{ops[at]}",
                f"--tls-cert={tls}/server.crt",
                f"--tls-key={tls}/server.key",
                f"--tls-client-ca={tls}/ca.crt",
                f"--replicas={','.join(f'{HOST}:{port}' for port in replica_ports)}",
                f"--replica-listen={HOST}:{replica_ports[at]}",
                f"--replica-tls={tls}",
                f"--page-listen={HOST}:{pages[at]}",
            ]
            urls = (f"https://{HOST}:{listen[at]}", f"http://{HOST}:{ops[at]}")
            extenders.append(LeadsmanProcess(arguments, *urls, folder / f"{at}.log"))
            stack.callback(extenders[at].kill)
        pair = Pair(extenders, [f"http://{HOST}:{port}" for port in pages], replica_ports, tls)
        until(lambda: all(each.get("/readyz")[0] == 200 for each in extenders), "both extenders ready")
        for at in range(2):
            pair.decide(at, f"cart-{at}")
        yield pair


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running_pair(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


def pods(listed: Mapping[str, Any]) -> set[str]:
    """Of those without a bound, on which each test may rely."""
    return {each["pod"] for each in listed["items"] if each["pod"].startswith("shop/cart-")}


def answers(pair: Pair, asked: int, path: str) -> bool:
    return pair.api(asked, path)[0] == 200


def is_newest(pair: Pair, asked: int, path: str, decision: str) -> bool:
    return pair.api(asked, path)[1].get("id") == decision


@pytest.mark.parametrize("asked", [0, 1])
def test_either_replica_shows_the_decisions_of_both(pair: Pair, asked: int) -> None:
    until(lambda: not pair.api(asked, "/decisions")[1]["partial"], "the whole list, on a busy machine too")
    _, listed = pair.api(asked, "/decisions")
    assert pods(listed) == {"shop/cart-0", "shop/cart-1"}
    for each in listed["items"]:
        by_id, by_pod = f"/decisions/{each['id']}", f"/pods/{each['pod']}"
        until(partial(answers, pair, asked, by_id), by_id)
        until(partial(is_newest, pair, asked, by_pod, each["id"]), by_pod)


@pytest.mark.parametrize("asked", [0, 1])
def test_explain_answers_at_a_replica_that_did_not_decide(
    pair: Pair, asked: int, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--extender", pair.extenders[asked].url, "--certs", str(pair.folder)]
    other = f"cart-{1 - asked}"
    until(lambda: main(["explain", "-n", "shop", other, *flags]) == 0, f"the explanation of {other}")
    assert f"shop/{other}" in capsys.readouterr().out

    def lists_both() -> bool:
        main(["explain", "-A", *flags])
        rows = capsys.readouterr().out.splitlines()[1:]
        return {row.split()[1] for row in rows} >= {"cart-0", "cart-1"}

    until(lists_both, "the decisions of both")


def test_pods_that_wait_are_those_of_both_replicas(pair: Pair) -> None:
    for at in range(2):
        pair.decide(at, f"far-{at}", **{"delay_edge-9": "1"})
    for asked in range(2):
        until(partial(shows_waiting, pair, asked, 2), "both pods wait")


def shows_waiting(pair: Pair, asked: int, pods: int) -> bool:
    waiting = pair.api(asked, "/overview")[1]["waiting"]
    return waiting["bounded_pods"] == pods and waiting["pod"] in ("shop/far-0", "shop/far-1")


def test_a_frozen_replica_is_named_and_the_rest_is_shown(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    until(lambda: not pair.api(0, "/decisions")[1]["partial"], "the other replica's name")
    name = socket.gethostname()
    pair.extenders[1].freeze()
    try:
        _, listed = pair.api(0, "/decisions")
        late = f"no answer within {1000 * ASK_SECONDS:g} ms"
        silent = {"replica": name, "error": late}
        assert (pods(listed), listed["partial"]) == ({"shop/cart-0"}, [silent])
        assert pair.api(0, "/pods/shop/cart-0")[1]["partial"] == [silent]
        status, refused = pair.api(0, "/pods/shop/cart-1")
        assert status == 503
        assert f"at a replica that does not answer, or nowhere: {name}: " in refused["error"]["message"]
        flags = ["--extender", pair.extenders[0].url, "--certs", str(pair.folder)]
        assert main(["explain", "-n", "shop", "cart-0", *flags]) == 0
        assert f"incomplete: {name}: {late}" in capsys.readouterr().err
    finally:
        pair.extenders[1].thaw()


def test_a_killed_replica_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    with running_pair(tmp_path) as pair:
        until(lambda: not pair.api(0, "/decisions")[1]["partial"], "the other replica's name")
        pair.extenders[1].kill()
        _, listed = pair.api(0, "/decisions")
    assert pods(listed) == {"shop/cart-0"}
    assert [each["replica"] for each in listed["partial"]] == [socket.gethostname()]


def test_neither_certificate_opens_the_other_s_listener(pair: Pair) -> None:
    assert pair.ask(pair.replica_ports[0], "/api/v1/decisions", "tls") == 200
    filter_port = int(pair.extenders[0].url.rpartition(":")[2])
    assert pair.ask(filter_port, "/state", "client") == 200
    for port, client in ((pair.replica_ports[0], "client"), (filter_port, "tls")):
        with pytest.raises((URLError, RemoteDisconnected, ConnectionResetError)):
            pair.ask(port, "/state", client)
    assert "client certificate of kube-scheduler refused" in pair.extenders[0].log
    assert f"client certificate of {HOST} refused" in pair.extenders[0].log
