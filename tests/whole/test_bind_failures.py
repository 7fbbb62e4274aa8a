"""`--bind` from end to end: a bind that the API server refuses is in etcd, under the node, for its agent to count."""

from typing import Any

from leadsman.cli.demo import scheduler_request
from leadsman.state import keys
from leadsman.testbed.etcd import Etcd
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, records


def bind(extender: LeadsmanProcess, node: str) -> tuple[str, str]:
    """filter and bind, as kube-scheduler asks. What bind answers."""
    body = scheduler_request.captured_args([node, "other"], {"app": "shop"})
    extender.post("filter", body)
    meta = body["Pod"]["metadata"]
    binding = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
    return meta["uid"], extender.post("bind", binding)["Error"]


def told(etcd: Etcd, node: str) -> dict[str, Any]:
    """Key → record, of the binds to `node` that failed."""
    return records(etcd, keys.bind_failures_prefix(node))


def test_a_refused_bind_is_told_to_the_node_and_an_api_server_that_is_away_blames_none(
    start: Start, api: ApiServerThread, etcd: Etcd
) -> None:
    extender = start("extender", "--bind", "--kube-api", api.url).ready()
    api.call(lambda server: server.fail("create", 503, times=10))
    assert bind(extender, "edge-1")[1]
    api.call(lambda server: server.fail("create", 422, times=1000))
    until(lambda: "422" in bind(extender, "edge-2")[1], "the API server answers, and refuses")
    uid, _ = bind(extender, "edge-2")
    until(lambda: told(etcd, "edge-2"), "the failed bind in etcd")
    record = {"v": 1, "type": "shop", "cause": "bind_refused"}
    assert told(etcd, "edge-2") == {keys.bind_failure_key("edge-2", uid): record}
    assert told(etcd, "edge-1") == told(etcd, "other") == {}
