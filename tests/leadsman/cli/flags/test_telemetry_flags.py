"""Flags of telemetry policies."""

from extender.run import ExtenderSettings
from leadsman.cli import extender, main

API = ["--kube-api", "http://127.0.0.1:1"]


def settings(*arguments: str, **environ: str) -> ExtenderSettings:
    return extender.settings(
        main.build_parser(environ, "extender").parse_args(["extender", "--plain-http", *arguments])
    )


def test_sources_stand_in_the_order_given_and_prometheus_with_its_url() -> None:
    found = settings(*API, "--telemetry", "custom-metrics,prometheus=https://prom:9090/x,agents").telemetry
    assert found is not None
    assert found.sources == ("custom-metrics", "prometheus", "agents")
    assert found.prometheus is not None
    assert (found.prometheus.url, found.api.url) == ("https://prom:9090/x", "http://127.0.0.1:1")
    assert (found.poll_interval_seconds, found.age_seconds) == (5.0, 15.0)
