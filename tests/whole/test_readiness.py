"""A new replica of the extender beside an etcd that does not answer."""

import time

import pytest

from extender.app import FAILED_LISTING_GRACE_SECONDS
from leadsman.testbed.etcd import Etcd
from tests.whole.conftest import Start, Until


@pytest.mark.slow
def test_a_frozen_etcd_is_waited_for_and_then_decided_without_until_it_answers_and_only_bounded_pods_are_refused(
    agent: Start, start: Start, etcd: Etcd, until: Until
) -> None:
    """etcd holds the records of edge-1, under a lease of 20 s."""
    reporting = agent("edge-1", 1, "--push-interval-seconds", "5")
    until(lambda: reporting.get("/readyz")[0] == 200, "the first report acknowledged")
    etcd.freeze()
    began = time.monotonic()
    extender = start("extender")
    waits = "waits for the first listing of the state in etcd (Unavailable: "
    until(lambda: extender.get("/readyz")[1].startswith(waits), "it waits and says why")
    assert extender.get("/readyz")[0] == 503
    assert extender.get("/healthz")[0] == 200
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
    until(lambda: list(extender.nodes()) == ["edge-1"], "edge-1, whose lease may have ended meanwhile")
