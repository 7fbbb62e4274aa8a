"""The agent's HTTP endpoints: /metrics, /healthz, /readyz, /config. Read-only, answered from memory."""

from collections.abc import Iterator

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.liveness import LoopLiveness
from agent.reporting import Reporter
from agent.settings import AgentSettings
from leadsman.runtime.ops_server import Health, create_ops_app, good_unless
from leadsman.runtime.redaction import hide_credentials

# Metrics of the agent's reports to etcd.


def agent_info(settings: AgentSettings) -> Iterator[Metric]:
    """The node's name, to join with, whatever the scraper calls the instance."""
    info = GaugeMetricFamily(
        "leadsman_agent_info",
        "Constant 1, labelled with the name, zone and rack of the node that the agent measures.",
        labels=["node", "zone", "rack"],
    )
    info.add_metric([settings.node, settings.zone, settings.rack], 1)
    yield info


def report_metrics(reporter: Reporter) -> Iterator[Metric]:
    """The metrics of the reporter."""
    yield CounterMetricFamily("leadsman_reports", "Reports that etcd acknowledged.", reporter.report_count)
    failures = CounterMetricFamily(
        "leadsman_report_failures", "Reports to etcd that failed, by cause.", labels=["cause"]
    )
    for cause, count in reporter.failures.items():
        failures.add_metric([cause], count)
    yield failures
    yield GaugeMetricFamily(
        "leadsman_node_claimed",
        "1 while this agent owns its node's records in etcd under a lease.",
        reporter.ownership is not None,
    )


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
