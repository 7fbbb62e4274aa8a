"""When the view that all answers share is made again."""

from typing import cast

from leadsman.state.snapshot import Snapshot
from tests.extender.api.conftest import Api, Fixed


async def test_a_view_from_before_the_state_was_read_is_not_shown_afterwards(api: Api) -> None:
    state = cast(Fixed, api.live.sources.inputs.state)
    loaded, state.current = state.current, Snapshot()
    assert (await api.get("/nodes"))[1]["total"] == 0
    state.current = loaded
    assert (await api.get("/nodes"))[1]["total"] == 10
