"""A new replica of the extender beside sources that answer late, badly or not at all."""

import time
from typing import TYPE_CHECKING

import pytest

from extender.app import FAILED_LISTING_GRACE_SECONDS
from leadsman.testbed.etcd import Etcd
from leadsman.testbed.fake_api_server import ApiServerThread

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until


@pytest.fixture
def reported(agent: "Start", until: "Until") -> None:
    """etcd holds the records of edge-1, under a lease of 20 s."""
    process = agent("edge-1", 1, "--push-interval-seconds", "5")
    until(lambda: process.get("/readyz")[0] == 200, "the first report acknowledged")


def nodes(extender: "LeadsmanProcess") -> list[str]:
    return list(extender.nodes())


@pytest.mark.usefixtures("reported")
def test_while_etcd_is_frozen_it_is_not_ready_and_once_it_answers_it_is_with_its_view(
    start: "Start", etcd: Etcd, until: "Until"
) -> None:
    etcd.freeze()
    extender = start("extender")
    waits = "waits for the first listing of the state in etcd (Unavailable: "
    until(lambda: extender.get("/readyz")[1].startswith(waits), "it waits and says why")
    assert extender.get("/readyz")[0] == 503
    assert extender.get("/healthz")[0] == 200
    etcd.thaw()
    until(lambda: extender.get("/readyz") == (200, "ok\n"), "ready")
    assert nodes(extender) == ["edge-1"]


@pytest.mark.slow
@pytest.mark.usefixtures("reported")
def test_an_etcd_that_stays_frozen_is_not_waited_for_and_until_it_answers_only_bounded_pods_are_refused(
    start: "Start", etcd: Etcd, until: "Until"
) -> None:
    etcd.freeze()
    began = time.monotonic()
    extender = start("extender")
    until(lambda: extender.get("/readyz")[0] == 200, "ready without etcd")
    assert time.monotonic() - began >= FAILED_LISTING_GRACE_SECONDS
    without = "ecides without what could not be listed yet: the state in etcd (Unavailable: "
    assert without in extender.get("/readyz")[1]
    assert without in extender.log
    assert extender.ask("filter", ["a", "b"], {})["NodeNames"] == ["a", "b"]
    assert len({row["Score"] for row in extender.ask("prioritize", ["a", "b"], {})}) == 1
    bounded = extender.ask("filter", ["a", "b"], {"delay_a": "25"})
    assert bounded["NodeNames"] == ["a"], "a node is 0 ms from itself, whatever is known"
    assert bounded["FailedAndUnresolvableNodes"].keys() == {"b"}
    etcd.thaw()
    until(lambda: extender.get("/readyz") == (200, "ok\n"), "the state read")
    until(lambda: nodes(extender) == ["edge-1"], "edge-1, whose lease may have ended meanwhile")


@pytest.mark.slow
def test_pods_that_come_page_by_page_without_an_error_are_waited_for_past_that_grace(
    start: "Start", until: "Until"
) -> None:
    """Each page takes 5 s, within the deadline of a call."""
    with ApiServerThread() as api:
        for number in range(4 * 500):
            api.put(f"/api/v1/namespaces/default/pods/p-{number}", {"spec": {"nodeName": "edge-1"}})
        api.call(lambda server: setattr(server, "slow_seconds", 5.0))
        extender = start("extender", "--kube-api", api.url)
        until(lambda: extender.get("/readyz")[0] == 503, "it waits")
        began = time.monotonic()
        until(lambda: extender.get("/readyz") == (200, "ok\n"), "ready")
        assert time.monotonic() - began > FAILED_LISTING_GRACE_SECONDS
        extender.kill()


@pytest.mark.slow
def test_what_the_api_server_refuses_is_named(start: "Start", until: "Until") -> None:
    with ApiServerThread() as api:
        api.call(lambda server: server.deny("taspolicies"))
        extender = start("extender", "--kube-api", api.url, "--telemetry", "agents")
        until(lambda: extender.get("/readyz")[0] == 200, "ready")
        page = extender.get("/readyz")[1]
        assert page.startswith("ok; decides without what could not be listed yet: taspolicies (Forbidden: ")
        extender.kill()
