"""An extender that was told to stop still answers whom kube-proxy sends to it, and sends them elsewhere."""

import http.client
import json
import signal
import time
from urllib.parse import urlsplit

from leadsman.cli.demo import scheduler_request
from tests.leadsman_process import LeadsmanProcess
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

DRAIN_SECONDS = 2.0
NODES = ["edge-1", "edge-2"]
BODY = json.dumps(scheduler_request.captured_args(NODES, {"delay_edge-1": "0"}))


def connect(extender: LeadsmanProcess) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(extender.url).netloc, timeout=5)


def filter_on(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    """The answer, read; AssertionError when it is not what the bound asks for. ConnectionError when nobody listens."""
    connection.request("POST", "/filter", BODY, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert (response.status, answer["NodeNames"]) == (200, ["edge-1"])
    return response


def terminate(extender: LeadsmanProcess) -> None:
    extender.child.send_signal(signal.SIGTERM)
    until(lambda: extender.get("/readyz") == (503, "draining\n"), "the extender is unready", DRAIN_SECONDS / 2)


def test_a_kept_connection_is_answered_and_told_to_close_and_new_ones_are_answered_for_the_whole_drain(
    start: Start,
) -> None:
    extender = start("extender", f"--drain-seconds={DRAIN_SECONDS:g}").ready()
    kept = connect(extender)
    assert filter_on(kept).getheader("Connection") is None
    began = time.monotonic()
    terminate(extender)
    assert extender.get("/healthz") == (200, "ok\n")
    assert filter_on(kept).getheader("Connection") == "close"
    assert kept.sock is None, "http.client has seen it closed, so the next request is made elsewhere"
    while time.monotonic() < began + DRAIN_SECONDS * 0.9:
        filter_on(connect(extender))
    assert extender.child.wait(10) == 0
    assert time.monotonic() - began >= DRAIN_SECONDS


def test_a_second_signal_ends_the_drain(start: Start) -> None:
    extender = start("extender", "--drain-seconds=600").ready()
    terminate(extender)
    extender.child.send_signal(signal.SIGINT)
    assert extender.child.wait(10) == 0
    assert "Traceback" not in extender.log
