"""What an extender that answers kube-scheduler says of its decisions in its API, as `leadsman explain` prints it."""

import json
from typing import TYPE_CHECKING

import pytest

from leadsman.decision.delay.delay_plugins import DelayFilter
from leadsman.state.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.extender.conftest import Captured, Labelled, Starter

BOUND = {"delay_node-00000": "25"}
POD = "default/cap-00000"


@pytest.fixture
async def decided(starts: "Starter", captured: "Captured", labelled: "Labelled", measured: Snapshot):
    """An extender that filtered and ranked default/cap-00000."""
    async with starts(measured) as extender:
        body = labelled(captured("names-3-filter"), BOUND)
        answer = await extender.asked("/filter", body)
        kept = body.replace(json.dumps(json.loads(body)["NodeNames"], separators=(",", ":")).encode(),
                            json.dumps(answer["NodeNames"]).encode())  # fmt: skip
        await extender.asked("/prioritize", kept)
        yield extender


def broken(*_):
    raise RuntimeError("out of order")


async def test_a_plugin_that_cannot_be_asked_again_is_named(decided, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DelayFilter, "evidence", broken)
    assert "plugin delay raised while explaining: RuntimeError: out of order" in await decided.told(POD)


async def test_the_path_of_kuberl_s_users_is_prioritize(starts: "Starter", captured: "Captured") -> None:
    async with starts() as extender:
        body = captured("names-3-prioritize")
        theirs, ours = (
            await extender.asked("/scheduler/priorities/rl-priority", body),
            await extender.asked("/prioritize", body),
        )
        assert extender.count("leadsman_extender_request_duration_seconds_count", verb="prioritize", code="200") == 2
    assert theirs == ours
    assert len(theirs) == 3
