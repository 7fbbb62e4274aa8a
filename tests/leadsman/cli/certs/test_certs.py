"""`leadsman certs` as an operator calls it, its files read back with cryptography."""

import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from leadsman.cli import certificates, main

NAMES = ("ca", "server", "client", "etcd-ca", "etcd")
FILES = {f"{name}.{ending}" for name in NAMES for ending in ("crt", "key")}


@pytest.fixture
def folder(tmp_path: Path):
    return tmp_path / "certs"


@pytest.fixture
def certs(folder, capsys: pytest.CaptureFixture[str]):
    """certs("create", …) → exit code, stdout, stderr."""

    def called(action, *arguments):
        code = main.main(["certs", action, "--dir", str(folder), *arguments])
        return (code, *capsys.readouterr())

    return called


def certificate(folder, name):
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_makes_a_pair_of_each_and_shows_when_they_expire(certs, folder) -> None:
    code, out, _ = certs("create", "--days", "90")
    assert code == 0
    assert set(contents(folder)) == FILES
    assert [line.rpartition(" ")[0].rpartition(" ")[2] for line in out.splitlines()] == [
        *("3649", "89", "89"),
        *("3649", "89"),
    ]
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.key")} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["leadsman-extender.leadsman.svc", "edge.example", "localhost"])
def test_the_server_is_verified_under_each_of_its_names(certs, folder, name: str) -> None:
    certs("create", "--names", "leadsman-extender.leadsman.svc,edge.example,localhost,10.0.0.9,fd00::9")
    store = Store([certificate(folder, "ca")])
    verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(name))
    assert verifier.verify(certificate(folder, "server"), [])


def test_nothing_is_overwritten_without_force(certs, folder) -> None:
    certs("create")
    before = contents(folder)
    code, _, err = certs("create")
    assert code == 1
    assert "--force" in err
    assert contents(folder) == before


def test_renewing_keeps_the_ca_and_the_names_and_changes_the_rest(certs, folder) -> None:
    certs("create", "--names", "a.example,10.0.0.9", "--client-name", "second-scheduler")
    before = contents(folder)
    assert certs("renew")[0] == 0
    kept = {name for name, content in contents(folder).items() if content == before[name]}
    assert kept == {"ca.crt", "ca.key", "etcd-ca.crt", "etcd-ca.key"}
    assert certificates.alternative_names(certificate(folder, "server")) == ("a.example", "10.0.0.9")
    assert certificates.common_name(certificate(folder, "client")) == "second-scheduler"


def test_showing_fails_when_something_expires_within_thirty_days(certs) -> None:
    certs("create", "--days", "31")
    assert certs("show")[0] == 0
    assert certs("create", "--days", "30", "--force")[0] == 0
    assert certs("show")[0] == 1


def test_secrets_hold_the_pairs_and_never_the_ca_s_key(certs, folder) -> None:
    certs("create")
    code, out, _ = certs("secrets", "--namespace", "here")
    assert code == 0
    extender, scheduler, *of_etcd = yaml.safe_load_all(out)
    assert (extender["metadata"]["namespace"], scheduler["metadata"]["namespace"]) == ("here", "kube-system")
    for secret, name in ((extender, "server"), (scheduler, "client")):
        assert {key: base64.b64decode(value) for key, value in secret["data"].items()} == {
            "tls.crt": (folder / f"{name}.crt").read_bytes(),
            "tls.key": (folder / f"{name}.key").read_bytes(),
            "ca.crt": (folder / "ca.crt").read_bytes(),
        }
    held = [base64.b64decode(text) for each in of_etcd if each["kind"] == "Secret" for text in each["data"].values()]
    assert (folder / "etcd-ca.key").read_bytes() not in held


def test_an_expired_ca_signs_nothing(certs, folder) -> None:
    certs("create")
    old = certificates.create_ca(datetime(2020, 1, 1, tzinfo=UTC), days=10)
    (folder / "ca.crt").write_bytes(old.certificate_pem)
    (folder / "ca.key").write_bytes(old.key_pem)
    code, _, err = certs("renew")
    assert code == 1
    assert "expired on 2020-01-11" in err
