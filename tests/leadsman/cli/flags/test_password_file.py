"""A password file that cannot be used is named, with what is allowed; nothing is a traceback."""

from pathlib import Path

import pytest

from leadsman.cli import main as command_line


@pytest.mark.parametrize(("content", "why"), [(b"\xff", "UTF-8"), (b"", "empty"), (b" \n", "empty")])
@pytest.mark.parametrize("command", ["agent", "extender", "controller"])
def test_a_bad_password_file_is_named(
    command: str, content: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    extra = ["--address", "10.0.0.1"] if command == "agent" else ["--kube-api", "http://127.0.0.1:1"]
    with pytest.raises(SystemExit):
        command_line.main([command, "--etcd-password-file", str(path), "--etcd-user", "u", *extra])
    shown = capsys.readouterr().err
    assert f"password file {path}: " in shown
    assert why in shown
