"""Which API server the flags stand for."""

import json
from pathlib import Path

import pytest

from leadsman.cli import extender, main


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def settings(*arguments, **environ):
    return extender.settings(
        main.build_parser(environ, "extender").parse_args(["extender", "--plain-http", *arguments])
    )


@pytest.fixture
def pem(tmp_path: Path):
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    return str(tmp_path / "ca.crt")


@pytest.fixture
def config(tmp_path: Path):
    clusters = [{"name": "c", "cluster": {"server": "https://there:6443"}}]
    contexts = [{"name": "x", "context": {"cluster": "c"}}]
    (tmp_path / "config").write_text(json.dumps({"current-context": "x", "clusters": clusters, "contexts": contexts}))
    return str(tmp_path / "config")


def test_bind_wants_one() -> None:
    with pytest.raises(ValueError, match="--bind needs an API server: ") as refused:
        settings("--bind")
    assert str(refused.value).count("--kube-api or --kubeconfig") == 1


def test_the_environment_names_one_too(config) -> None:
    assert settings(LEADSMAN_KUBECONFIG=config).api.url == "https://there:6443"


def test_two_at_once_exclude_each_other(config) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        settings("--kubeconfig", config, "--kube-api", "https://there")


@pytest.mark.parametrize("flag", ["--kube-ca", "--kube-token-file"])
def test_a_ca_or_token_without_the_url_is_not_ignored(flag: str, pem) -> None:
    with pytest.raises(ValueError, match="need --kube-api too"):
        settings(flag, pem)
