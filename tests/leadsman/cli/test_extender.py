"""`leadsman extender`'s flags: TLS unless plain HTTP is asked for by name."""

from pathlib import Path

import pytest

from leadsman.cli import extender, main

TLS = ("--tls-cert", "--tls-key", "--tls-client-ca")


def parsed(*arguments, **environ):
    return extender.settings(main.build_parser(environ, "extender").parse_args(["extender", *arguments]))


@pytest.fixture
def file(tmp_path: Path):
    (tmp_path / "pem").touch()
    return str(tmp_path / "pem")


@pytest.fixture
def given(file):
    return [word for flag in TLS for word in (flag, file)]


def test_nothing_is_served_in_the_open_by_omission() -> None:
    with pytest.raises(ValueError, match=r"--tls-cert, --tls-key, --tls-client-ca not given.*--plain-http"):
        parsed()


@pytest.mark.parametrize("missing", TLS)
def test_a_certificate_wants_all_three_files(given, missing) -> None:
    at = given.index(missing)
    with pytest.raises(ValueError, match=f"^{missing} not given"):
        parsed(*given[:at], *given[at + 2 :])


def test_plain_http_with_certificates_is_a_contradiction(given) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        parsed("--plain-http", *given)


def test_the_client_is_kube_scheduler_unless_named(given) -> None:
    assert parsed(*given).tls.client_names == {"kube-scheduler"}
    assert parsed(*given, "--tls-client-name", "a, b").tls.client_names == {"a", "b"}


@pytest.mark.parametrize("said", ["5,25.5", "[5, 25.5]", " 5 , 25.5 "])
def test_layers_may_come_by_the_originals_name(said: str) -> None:
    assert parsed("--plain-http", INITIAL_CLUSTER_LAYERS=said).delays.initial_layers_ms == (5.0, 25.5)


@pytest.mark.parametrize("said", ["5;25", "-1", "nan", "1e9"])
def test_layers_that_are_no_milliseconds_are_refused(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--plain-http", "--initial-layers", said)
    assert "want milliseconds, 0 to 60000, comma-separated" in capsys.readouterr().err
