"""The agent's HTTP endpoints: /metrics, /healthz, /readyz, /config. Read-only, answered from memory."""

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from agent.liveness import LoopLiveness
from agent.reporting import Reporter
from agent.settings import AgentSettings
from leadsman.runtime.ops_server import Health, create_ops_app, good_unless
from leadsman.runtime.redaction import hide_credentials

ENDPOINTS = (
    "/metrics  measurements for Prometheus\n"
    "/healthz  agent loops make progress\n"
    "/readyz   last report was acknowledged\n"
    "/config   settings\n"
)


def create_app(
    settings: AgentSettings,
    registry: CollectorRegistry,
    liveness: LoopLiveness,
    reporter: Reporter,
) -> web.Application:
    async def index(_: web.Request) -> web.Response:
        return web.Response(text=f"leadsman agent on {settings.node}\n{ENDPOINTS}")

    def healthz() -> Health:
        """The process's own loops. Never depends on etcd: a restart would not bring it back."""
        return good_unless(
            "\n".join(
                f"loop {name} has not completed a round for {seconds:.0f} s"
                for name, seconds in liveness.stalled().items()
            )
        )

    def readyz() -> Health:
        return good_unless(reporter.problem.text or ("" if reporter.report_count else "no report was acknowledged yet"))

    async def config(_: web.Request) -> web.Response:
        return web.json_response(text=hide_credentials(msgspec.json.encode(redacted(settings)).decode()))

    app = create_ops_app(registry, healthz, readyz)
    app.router.add_get("/", index)
    app.router.add_get("/config", config)
    return app


def redacted(settings: AgentSettings) -> dict[str, object]:
    """The settings as JSON values, without passwords, tokens and keys."""
    shown: dict[str, object] = msgspec.to_builtins(settings, enc_hook=str)
    password = "<redacted>" if settings.etcd.password else ""
    if settings.pods is not None:
        shown["pods"] = msgspec.to_builtins(settings.pods, enc_hook=str) | {"api": settings.pods.api.url}
    return shown | {"etcd": msgspec.to_builtins(settings.etcd, enc_hook=str) | {"password": password}}
