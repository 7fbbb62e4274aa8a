"""The health check "controllers answer"."""

from typing import Any, cast

import pytest

from extender.api.replica_statuses import ReplicaStatuses
from extender.peers.client import PeerAnswer, PeerClient, SilentPeer
from tests.extender.api.conftest import Api
from tests.extender.api.test_plan_page import FOLLOWING, LEADING, SILENT
from tests.extender.api.test_replica_answers import Peers, answer


async def check_after(api: Api, *answers: PeerAnswer, silent: tuple[SilentPeer, ...] = ()) -> Any:
    """The check, once controllers have said this."""
    api.live.replicas = ReplicaStatuses(None, cast(PeerClient, Peers(*answers, silent=silent)))
    await api.live.replicas.refresh()
    (check,) = [each for each in (await api.get("/health"))[1]["checks"] if each["name"] == "controllers answer"]
    return check


async def test_a_leader_that_says_its_plan_passes(api: Api) -> None:
    check = await check_after(api, answer("controller-1", FOLLOWING), answer("controller-2", LEADING))
    assert (check["ok"], check["text"]) == (True, "controller-2 leads and says its plan")


@pytest.mark.parametrize(
    ("answers", "silent", "text"),
    [
        ((answer("controller-2", LEADING),), (SILENT,), f"controller-1: {SILENT.error}"),
        ((answer("controller-2", FOLLOWING),), (), "no controller leads now"),
        ((), (SILENT,), "the controller that leads does not answer, or none leads: controller-1: "),
        ((), (), "no controller runs"),
    ],
)
async def test_a_controller_that_is_silent_and_a_lead_that_nobody_has_fail(
    api: Api, answers: tuple[PeerAnswer, ...], silent: tuple[SilentPeer, ...], text: str
) -> None:
    check = await check_after(api, *answers, silent=silent)
    assert not check["ok"]
    assert check["text"].startswith(text)
    assert check["what_to_do"].startswith("look at the controllers' pods")
    problems = (await api.get("/overview"))[1]["problems"]
    assert check["text"] in {each["text"] for each in problems}


async def test_an_extender_that_asks_no_controller_has_no_such_check(api: Api) -> None:
    await api.live.replicas.refresh()
    names = {each["name"] for each in (await api.get("/health"))[1]["checks"]}
    assert "controllers answer" not in names
