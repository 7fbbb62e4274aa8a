"""The page /config: the policy in use, and its plugins."""

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from extender.config_page import add_config_page
from extender.plugins.host import PluginHost
from leadsman.decision.policy import digest
from leadsman.sources.policy_file import PolicyFile
from tests.extender.plugins.conftest import Hosted, policy

POLICY = "plugins: {scores: [{name: absent}]}"


async def shown(file: PolicyFile, host: PluginHost) -> dict[str, Any]:
    app = web.Application()
    add_config_page(app, file, host)
    async with TestClient(TestServer(app)) as client, client.get("/config") as response:
        page: dict[str, Any] = await response.json()
    return page


async def test_a_file_that_cannot_be_used_is_a_problem_beside_the_policy_in_use(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    file = PolicyFile(tmp_path / "policy.yaml")
    (tmp_path / "policy.yaml").write_text("plugins: 3")
    file.poll()
    page = await shown(file, PluginHost(lambda: file.current, Hosted(policy()).inputs))
    assert "plugins" in page["policy_problem"]
    assert page["policy_hash"] == digest(file.current)


async def test_it_shows_each_plugin_with_its_last_failure(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    file = PolicyFile(tmp_path / "policy.yaml")
    hosted = Hosted(file.current)
    hosted.host.reconcile()
    try:
        await hosted.until(lambda: hosted.plugins["absent"].failures)
        (plugin,) = (await shown(file, hosted.host))["plugins"]
    finally:
        await asyncio.gather(*hosted.host._starting)
        hosted.host.close()
    assert (plugin["group"], plugin["name"]) == ("leadsman.scores", "absent")
    assert "0 installed packages have 'absent'" in plugin["problem"]
