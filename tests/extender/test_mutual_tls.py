"""The extender behind mutual TLS, on real sockets: whom it lets in, and certificates swapped under its feet."""

import asyncio
import contextlib
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leadsman.cli import certificates
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.server_tls import ServerTls, TlsFiles, tls_metrics
from tests.extender.conftest import answer, request, starts
from tests.extender.conftest import connected as connection

NOW = datetime.now(UTC)
CA = certificates.create_ca(NOW, days=10)
STRANGERS_CA = certificates.create_ca(NOW, days=10)

FILTER = b'{"Pod":{"metadata":{"name":"p","namespace":"ns"}},"NodeNames":[]}'


def pair_of(ca, began=NOW, days=5):
    """A server's files of this CA, which asks clients for one of ours."""
    pair = certificates.issue_server(ca, ("localhost", "127.0.0.1"), began, days)
    return {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": CA.certificate_pem}


def mounted(folder, ca=CA, version="1"):
    """The files as kubelet mounts a Secret: links to ..data/<file>, ..data a link that is swapped as a whole."""
    swap(folder, pair_of(ca) | {"ca.crt": ca.certificate_pem}, version)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    return TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt", frozenset({"kube-scheduler"}))


def swap(folder, content, version):
    (folder / f"..{version}").mkdir(parents=True)
    for name, pem in content.items():
        (folder / f"..{version}" / name).write_bytes(pem)
    (folder / "..new").symlink_to(f"..{version}")
    (folder / "..new").replace(folder / "..data")


@pytest.fixture
def tls(tmp_path: Path):
    return ServerTls(mounted(tmp_path / "tls"))


def client(pair, trusts=CA):
    """The context of a caller who shows this pair (None: no certificate)."""
    context = ssl.create_default_context(cadata=trusts.certificate_pem.decode())
    if pair:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.certificate_pem + pair.key_pem)
            file.flush()
            context.load_cert_chain(file.name)
    return context


@pytest.fixture
def scheduler():
    return client(certificates.issue_client(CA, "kube-scheduler", NOW, 5))


def connected(port, context):
    return connection(port, ssl=context, server_hostname="localhost")


async def asked(reader, writer):
    """The status."""
    writer.write(request(FILTER))
    return (await answer(reader))[0]


async def met(port, context):
    """What a new connection gets: the status, or why there is none."""
    try:
        async with connected(port, context) as streams:
            return await asked(*streams)
    except ssl.SSLError as error:
        return error.reason
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return "closed"


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (certificates.issue_client(CA, "kube-scheduler2", NOW, 5), "of kube-scheduler2 refused; allowed are"),
        (certificates.issue_client(CA, "Kube-Scheduler", NOW, 5), "of Kube-Scheduler refused; allowed are"),
        (certificates.issue_client(STRANGERS_CA, "kube-scheduler", NOW, 5), "unable to get local issuer certificate"),
        (certificates.issue_client(CA, "kube-scheduler", NOW - timedelta(days=2), days=1), "certificate has expired"),
        (None, "peer did not return a certificate"),
    ],
    ids=["another name", "another case", "another CA", "expired", "none"],
)
async def test_who_does_not_show_a_valid_certificate_of_an_allowed_name_is_not_let_in(
    tls, caplog: pytest.LogCaptureFixture, pair, said: str
) -> None:
    async with starts(tls=tls) as extender:
        assert await met(extender.port, client(pair)) == "closed"
    assert said in caplog.text


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_tls_1_1_is_refused_though_the_client_speaks_it(tls, scheduler, caplog: pytest.LogCaptureFixture) -> None:
    scheduler.set_ciphers("ALL:@SECLEVEL=0")
    scheduler.minimum_version = scheduler.maximum_version = ssl.TLSVersion.TLSv1_1
    async with starts(tls=tls) as extender:
        assert await met(extender.port, scheduler) in ("closed", "UNEXPECTED_EOF_WHILE_READING")
    assert "unsupported protocol" in caplog.text


async def test_connections_count_from_accept_and_silent_ones_cost_the_scheduler_nothing(tls, scheduler) -> None:
    limits = ServerLimits(max_unproven_connections=3, max_proven_connections=1, header_timeout_seconds=3600.0)
    async with (
        starts(tls=tls, limits=limits) as extender,
        connected(extender.port, scheduler) as open_before,
        contextlib.AsyncExitStack() as stack,
    ):
        assert await asked(*open_before) == 200
        strangers = [await asyncio.open_connection("127.0.0.1", extender.port) for _ in range(10)]
        for _, writer in strangers:
            stack.callback(writer.close)
        for reader, _ in strangers[:7]:
            assert await asyncio.wait_for(reader.read(), 60) == b""
        assert await asked(*open_before) == 200
        assert await met(extender.port, scheduler) == 200


async def test_half_a_handshake_is_cut(tls) -> None:
    async with starts(tls=tls, limits=ServerLimits(header_timeout_seconds=0.1)) as extender:
        reader, writer = await asyncio.open_connection("127.0.0.1", extender.port)
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00")
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def test_swapped_files_serve_new_connections_and_open_ones_go_on(tls, tmp_path: Path, scheduler) -> None:
    async with starts(tls=tls) as extender, connected(extender.port, scheduler) as before:
        assert await asked(*before) == 200
        mounted(tmp_path / "tls", STRANGERS_CA, version="2")
        tls.poll()
        assert await asked(*before) == 200
        new = client(certificates.issue_client(STRANGERS_CA, "kube-scheduler", NOW, 5), trusts=STRANGERS_CA)
        assert await met(extender.port, new) == 200
        assert await met(extender.port, scheduler) == "CERTIFICATE_VERIFY_FAILED"


OTHER_KEY = certificates.issue_server(CA, ("localhost",), NOW, 5).key_pem
EXPIRED_CA = certificates.create_ca(NOW - timedelta(days=9), days=8)
LATER_CA = certificates.create_ca(NOW + timedelta(days=1), days=8)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (pair_of(CA, NOW - timedelta(days=9), 8), "expired"),
        (pair_of(CA, NOW + timedelta(days=1), 8), "not yet valid"),
        (pair_of(STRANGERS_CA), "is not of the CA in"),
        (pair_of(CA) | {"tls.key": OTHER_KEY}, "key values mismatch"),
        (pair_of(CA) | {"ca.crt": EXPIRED_CA.certificate_pem}, "no CA certificate in it is valid"),
    ],
    ids=["expired", "not yet valid", "another CA's", "another key's", "expired client CA"],
)
async def test_what_no_client_would_accept_replaces_nothing_and_is_said(
    tls, tmp_path: Path, scheduler, content, why, caplog: pytest.LogCaptureFixture
) -> None:
    async with starts(tls=tls) as extender:
        swap(tmp_path / "tls", content, "2")
        tls.poll()
        assert why in tls.problem.text
        assert caplog.text.count("cannot load the certificate files; the previous ones stay in use") == 1
        assert await met(extender.port, scheduler) == 200
        assert next(iter(tls_metrics(tls))).samples[0].value == 0
        mounted(tmp_path / "tls", version="3")
        tls.poll()
        assert tls.problem.text == ""
        assert next(iter(tls_metrics(tls))).samples[0].value == 1
        assert await met(extender.port, scheduler) == 200


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (pair_of(CA, NOW + timedelta(days=1), 8), "not yet valid"),
        (pair_of(CA) | {"ca.crt": LATER_CA.certificate_pem}, "no CA certificate in it is valid"),
    ],
    ids=["server", "client CA"],
)
def test_a_certificate_whose_time_comes_is_used_without_another_change(tls, tmp_path: Path, content, why) -> None:
    """The node's clock may be behind that of the one who issued it."""
    before = tls.current
    swap(tmp_path / "tls", content, "2")
    tls.poll()
    assert why in tls.problem.text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leadsman.runtime.client_tls._verify", lambda *_: {"notAfter": "Jan 1 00:00:00 2038 GMT"})
        patch.setattr(tls, "_wall_clock", (NOW + timedelta(days=2)).timestamp)
        tls.poll()
    assert tls.current is not before
