"""The page /config on the operators' port: the policy in use, and what its plugins do."""

from collections.abc import Sequence

import msgspec
from aiohttp import web
from msgspec import Struct

from extender.plugins.host import PluginHost, PluginState
from leadsman.decision.policy import Policy, digest
from leadsman.runtime.redaction import hide_credentials
from leadsman.sources.policy_file import PolicyFile


class ConfigPage(Struct, frozen=True):
    """policy_hash: as /explain has it. policy_problem: why the file as it is now is not in use; "" when it is."""

    policy_hash: str
    policy_problem: str
    plugins: Sequence[PluginState]
    policy: Policy


def add_config_page(app: web.Application, policy_file: PolicyFile, plugins: PluginHost) -> None:
    """Always JSON, as the agent's /config is."""

    async def show(_: web.Request) -> web.Response:
        policy = policy_file.current
        page = ConfigPage(digest(policy), policy_file.problem.text, plugins.states(), policy)
        text = msgspec.json.format(msgspec.json.encode(page), indent=2).decode()
        return web.json_response(text=hide_credentials(text))

    app.router.add_get("/config", show)
