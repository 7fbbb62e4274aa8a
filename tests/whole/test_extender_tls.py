"""The extender's process behind mutual TLS, with the files of `leadsman certs`."""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leadsman.cli import main

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    assert main.main(["certs", "create", "--dir", str(tmp_path / "certs")]) == 0
    return tmp_path / "certs"


@pytest.fixture
def extender(start: "Start", certs: Path, until: "Until") -> "LeadsmanProcess":
    files = [f"{certs}/{name}" for name in ("server.crt", "server.key", "ca.crt")]
    flags = ("--tls-cert", "--tls-key", "--tls-client-ca")
    process = start("extender", *(word for pair in zip(flags, files, strict=True) for word in pair))
    process.url = process.url.replace("http://", "https://")
    until(lambda: process.get("/readyz")[0] == 200, "ready, over plain HTTP")
    return process


def test_renewed_certificates_are_served_without_a_restart(
    extender: "LeadsmanProcess", certs: Path, until: "Until"
) -> None:
    def served():
        host, _, port = extender.url.removeprefix("https://").partition(":")
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))

    before = served()
    assert main.main(["certs", "renew", "--dir", str(certs)]) == 0
    renewed = ssl.PEM_cert_to_DER_cert((certs / "server.crt").read_text())
    assert before != renewed
    until(lambda: served() == renewed, "the renewed certificate served")
    assert extender.stop() == 0
    assert "Traceback" not in extender.log
