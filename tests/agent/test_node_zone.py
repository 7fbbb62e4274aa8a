"""The node's zone, from its Node object."""

import logging

import pytest

from agent.run import read_zone
from leadsman.kube.access import ApiAccess
from leadsman.testbed.fake_api_server import FakeApiServer

NODE = "/api/v1/nodes/edge-1"


async def test_the_zone_is_that_of_the_node_s_label() -> None:
    async with FakeApiServer() as api:
        api.put(NODE, {"metadata": {"labels": {"topology.kubernetes.io/zone": "north"}}})
        assert await read_zone(ApiAccess(api.url), "edge-1") == "north"


async def test_a_node_that_may_not_be_read_has_no_zone_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApiServer() as api:
        api.put(NODE, {"metadata": {"labels": {"topology.kubernetes.io/zone": "north"}}})
        api.deny("nodes")
        with caplog.at_level(logging.WARNING):
            assert await read_zone(ApiAccess(api.url), "edge-1") == ""
    assert "the zone of node edge-1 is unknown until the agent's next start, or set --zone: " in caplog.text
