"""The listener as a process runs it: TLS and tokens beyond loopback, and nothing of it on kube-scheduler's listener."""

import aiohttp
import pytest
from msgspec import structs

from extender.api import token_access
from extender.api.contract.overview import ChangeEvent
from extender.api.server import PageServer
from extender.api.settings import PageService, PageSettings
from extender.app import create_app, create_ops_app
from extender.metrics import ExtenderMetrics
from leadsman.kube.access import ApiAccess
from leadsman.runtime.http_server import serve
from leadsman.runtime.mutual_tls import MutualTls, TlsFiles, tls_metrics
from leadsman.runtime.ops_server import Health
from tests.extender.api.conftest import READER, Api, Files, served
from tests.extender.api.reviewing_api import ReviewingApi


async def test_the_clusters_listener_serves_by_tls_to_those_whom_the_api_server_knows(
    service: aiohttp.ClientSession,
) -> None:
    for headers, status in (({}, 401), (READER, 200), (READER | {"Host": "leadsman-page"}, 200)):
        for path in ("/api/v1/health", "/", "/api/v1/openapi.json"):
            async with service.get(path, headers=headers) as response:
                assert (path, response.status) == (path, status)
    async with service.get("/", headers=READER | {"Host": "elsewhere"}) as response:
        assert response.status == 403


async def test_both_listeners_serve_at_once(api: Api, files: Files) -> None:
    service = PageService(("127.0.0.1", 0), frozenset(), files.certificate, files.key, ApiAccess("http://127.0.0.1:1"))
    settings = PageSettings(("127.0.0.1", 0), service)
    async with PageServer(settings, api.live.sources).serving() as (local, port), aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{local}/api/v1/health") as response:
            assert response.status == 200
        async with session.get(f"https://127.0.0.1:{port}/api/v1/health", ssl=files.client) as response:
            assert response.status == 401


async def test_an_event_stream_ends_when_its_readers_right_does(
    api: Api, files: Files, monkeypatch: pytest.MonkeyPatch, reviewing: ReviewingApi
) -> None:
    monkeypatch.setattr(token_access, "GRANTED_SECONDS", 0.0)
    async with served(api, files, reviewing) as service, service.get("/api/v1/events", headers=READER) as response:
        assert response.status == 200
        await response.content.readuntil(b"\n\n")
        reviewing.rights.clear()
        api.live.streams.send(ChangeEvent(["nodes"], 8))
        with pytest.raises(aiohttp.ClientError):
            await response.content.readuntil(b"\n\n")


async def test_the_page_comes_with_its_policy(api: Api) -> None:
    server = PageServer(PageSettings(("127.0.0.1", 0)), api.live.sources)
    async with (
        server.serving() as (port,),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        session.get("/") as response,
    ):
        assert response.content_type == "text/html"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_days_until_certificates_expire_are_counted(api: Api, files: Files) -> None:
    tls = MutualTls(TlsFiles(files.certificate, files.key, files.ca, frozenset({"kube-scheduler"})))
    three_days_before = tls.expires_at["server"] - 3 * 86_400
    sources = structs.replace(api.live.sources, tls=tls, wall_clock=lambda: three_days_before)
    assert {each.name: each.days_left for each in sources.certificates}["server"] == 3.0
    shown = [sample for family in tls_metrics(tls) for sample in family.samples]
    assert [each.labels.get("certificate") for each in shown] == [None, "server", "client_ca"]
    assert api.live.sources.certificates == []


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
async def test_kube_schedulers_listener_accepts_no_credential_of_the_page(api: Api, files: Files, verb: str) -> None:
    sources = api.live.sources
    app = create_app(sources.inputs, metrics=ExtenderMetrics(), workers=sources.workers)
    tls = MutualTls(TlsFiles(files.certificate, files.key, files.ca, frozenset({"kube-scheduler"})))
    async with serve(app, "127.0.0.1", 0, tls=tls) as port, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"https://127.0.0.1:{port}/{verb}", json={}, ssl=files.client, headers=READER)


async def test_neither_kube_schedulers_nor_the_metrics_listener_knows_the_api(api: Api) -> None:
    sources = api.live.sources
    for app in (
        create_app(sources.inputs, metrics=ExtenderMetrics(), workers=sources.workers),
        create_ops_app(lambda: Health(True), ExtenderMetrics(), sources.workers),
    ):
        async with serve(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
            for path in ("/api/v1/overview", "/"):
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    assert response.status == 404
