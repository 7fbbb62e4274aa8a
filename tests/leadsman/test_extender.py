"""`leadsman extender`'s flags: TLS unless plain HTTP is asked for by name."""

import pytest

from leadsman import extender, main

TLS = ("--tls-cert", "--tls-key", "--tls-client-ca")


def parsed(*arguments, **environ):
    return extender.settings(main.parser(environ, "extender").parse_args(["extender", *arguments]))


@pytest.fixture
def file(tmp_path):
    (tmp_path / "pem").touch()
    return str(tmp_path / "pem")


@pytest.fixture
def given(file):
    return [word for flag in TLS for word in (flag, file)]


def test_nothing_is_served_in_the_open_by_omission():
    with pytest.raises(ValueError, match=r"--tls-cert, --tls-key, --tls-client-ca missing.*--plain-http"):
        parsed()


def test_plain_http_is_a_flag_of_its_own():
    assert parsed("--plain-http").tls is None


@pytest.mark.parametrize("missing", TLS)
def test_a_certificate_wants_all_three_files(given, missing):
    at = given.index(missing)
    with pytest.raises(ValueError, match=f"^{missing} missing"):
        parsed(*given[:at], *given[at + 2 :])


def test_plain_http_with_certificates_is_a_contradiction(given):
    with pytest.raises(ValueError, match="exclude each other"):
        parsed("--plain-http", *given)


def test_the_client_is_kube_scheduler_unless_named(given):
    assert parsed(*given).tls.client_names == {"kube-scheduler"}
    assert parsed(*given, "--tls-client-name", "a, b").tls.client_names == {"a", "b"}


def test_no_name_is_no_name(given, capsys):
    with pytest.raises(SystemExit):
        parsed(*given, "--tls-client-name", ",")
    assert "want NAME or NAME,NAME" in capsys.readouterr().err
