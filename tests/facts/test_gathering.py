"""What a process decides on, wired as it was asked for."""

import pytest

from apiserver.access import Access
from clusterstate.memory import MemoryStore
from delays.chosen import Choice
from facts.gathering import Asked, Gathering
from telemetry.sources import TelemetrySettings

API = Access("http://127.0.0.1:1")


def tasks(gathering):
    """Their names; none is begun."""
    loops = dict(gathering.tasks())
    for loop in loops.values():
        loop.close()
    return loops.keys()


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        (Asked(), set()),
        (Asked(api=API), {"follow the places of workloads", "follow the roles of nodes"}),
        (Asked(delays=Choice(goldpinger="http://gp")), {"delays from goldpinger"}),
        (Asked(telemetry=TelemetrySettings(("agents",), API)), {"follow the telemetry policies"}),
    ],
    ids=["nothing", "api", "goldpinger", "telemetry"],
)
async def test_each_source_that_is_asked_for_is_followed_and_no_other(asked, more):
    always = {"follow the state", "follow the policy file", "estimates"}
    assert tasks(Gathering(MemoryStore(), asked)) == always | more


async def test_addresses_are_followed_for_goldpinger_only():
    both = Asked(api=API, delays=Choice(goldpinger="http://gp"))
    assert "follow the addresses of nodes" in tasks(Gathering(MemoryStore(), both))
    assert "follow the addresses of nodes" not in tasks(Gathering(MemoryStore(), Asked(api=API)))


async def test_the_policy_file_in_use_is_the_one_of_the_facts(tmp_path):
    (tmp_path / "policy.yaml").write_text("scores: {nearest: {weight: 9}}\n")
    async with Gathering(MemoryStore(), Asked(tmp_path / "policy.yaml")) as gathering:
        assert gathering.sources.facts().policy.scores.nearest.weight == 9
        (tmp_path / "policy.yaml").write_text("scores: {nearest: {weight: 8.5}}\n")
        gathering.policy.poll()
        assert gathering.sources.facts().policy.scores.nearest.weight == 8.5


async def test_metrics_tell_of_every_source(tmp_path):
    telemetry = TelemetrySettings(("agents",), API)
    async with Gathering(MemoryStore(), Asked(None, API, Choice(), telemetry)) as gathering:
        names = {family.name for family in gathering.families()}
    wanted = {"leadsman_policy_load_success", "leadsman_apiserver_objects", "leadsman_telemetry_policies"}
    assert names >= wanted
    assert any(name.startswith("leadsman_estimates") for name in names)
