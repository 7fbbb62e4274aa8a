"""The certificate of replicas: what cannot be used is refused at start."""

from pathlib import Path

import pytest

from extender.peers.replicas import ReplicaSettings
from tests.testbed.certificates import CertificateAuthority


@pytest.fixture
def settings(tmp_path: Path) -> ReplicaSettings:
    authority = CertificateAuthority()
    (tmp_path / "ca.crt").write_text(authority.pem)
    authority.issue("leadsman-replicas").write(tmp_path, "tls")
    return ReplicaSettings(("127.0.0.1", 0), (("leadsman-replicas", 9006),), tmp_path)


def test_both_ends_show_the_same_certificate(settings: ReplicaSettings) -> None:
    assert settings.files.client_names == {"leadsman-replicas"}
    assert settings.client_tls().problem.text == ""


@pytest.mark.parametrize("content", ["", "no PEM"])
def test_a_file_that_is_no_certificate_is_refused(settings: ReplicaSettings, content: str) -> None:
    settings.files.certificate.write_text(content)
    with pytest.raises(ValueError, match="must be a certificate, its unencrypted key and a CA"):
        settings.client_tls()


def test_a_missing_file_is_refused(settings: ReplicaSettings) -> None:
    settings.files.key.unlink()
    with pytest.raises(ValueError, match="No such file"):
        settings.client_tls()
