"""The requeue plan is executed: a node's annotation is touched, at a limited rate, and a failed touch is made later."""

import pytest

from controller.requeuer import Requeuer
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.runtime.token_bucket import TokenBucket
from tests.controller.followed import Told, listed, node_cache, tools, waiting_pod
from tests.leadsman.planning.measured import measured
from tests.testbed.scripted_api_server import FakeApiServer

NODES = ("a", "b", "c")


def inputs(**to_a: float) -> DecisionInputs:
    """to_a: node → its RTT to node a, in ms."""
    return measured(100.0, {"a": to_a})


@pytest.fixture
def requeuer(client: ApiClient, api: FakeApiServer):
    """With the state that its inputs come from and its pods; it may touch once."""
    for node in NODES:
        api.put(f"/api/v1/nodes/{node}", {"metadata": {}})
    state = {"inputs": inputs(b=80.0, c=80.0)}
    pods = {("ns", "p"): waiting_pod(labels={"delay_a": "25"})}

    pending = listed(pods)
    one = Requeuer(tools(client, Told(), lambda: state["inputs"]), pending, node_cache(*NODES), TokenBucket(1e-9, 1))
    return one, state, pods


def touched(api: FakeApiServer) -> list[str]:
    return [
        a.path.rpartition("/")[2]
        for a in api.requests
        if a.verb == "patch" and RETRIED_AT_ANNOTATION in a.body["metadata"]["annotations"]
    ]


async def test_touches_are_rate_limited(requeuer, api: FakeApiServer) -> None:
    one, state, _ = requeuer
    await one.turn()
    state["inputs"] = inputs(b=5.0, c=80.0)
    await one.turn()
    assert touched(api) == ["a"], "the second waits for its turn"
    one._rate = TokenBucket(1e9, 1)
    await one.turn()
    assert touched(api) == ["a", "b"]
