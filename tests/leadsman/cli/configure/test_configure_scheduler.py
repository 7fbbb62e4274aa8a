"""`leadsman configure-scheduler` as an operator calls it, on files."""

import os
from pathlib import Path

import pytest

from leadsman.cli import main

SETUPS = Path(__file__).parents[3] / "data" / "schedulers"
URL = "https://10.96.0.17:9001"


@pytest.fixture
def machine(tmp_path: Path):
    """A control-plane node: the manifest, and the certificates."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "leadsman").mkdir()
    for name in ("ca.crt", "client.crt", "client.key"):
        (tmp_path / "leadsman" / name).touch()
    manifest = tmp_path / "manifests/kube-scheduler.yaml"
    manifest.write_bytes((SETUPS / "kubeadm-1.33/kube-scheduler.yaml").read_bytes())
    manifest.chmod(0o600)
    return tmp_path


@pytest.fixture
def configure(machine, capsys: pytest.CaptureFixture[str]):
    """configure(*flags) → exit code, stdout, stderr."""

    def called(*flags, url=URL):
        folders = ["--certs", str(machine / "leadsman"), "--backups", str(machine / "backup")]
        manifest = str(machine / "manifests/kube-scheduler.yaml")
        code = main.main(["configure-scheduler", manifest, "--extender", url, *folders, *flags])
        return (code, *capsys.readouterr())

    return called


def contents(folder):
    """Path → text of every file, backups apart."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = {str(path.relative_to(folder)): path.read_text() for path in paths}
    return {name: text for name, text in found.items() if not name.startswith("backup/")}


def test_it_writes_what_the_diff_shows(configure, machine) -> None:
    before = contents(machine)
    code, shown, _ = configure("--dry-run")
    assert code == 0
    assert contents(machine) == before
    assert f"+    - --config={machine}/leadsman/scheduler.yaml\n" in shown
    code, done, _ = configure()
    assert code == 0
    assert done.startswith(shown)
    assert f"urlPrefix: {URL}" in (machine / "leadsman/scheduler.yaml").read_text()


def test_undo_puts_back_every_byte_and_takes_away_what_was_made(configure, machine) -> None:
    before = contents(machine)
    configure()
    assert configure("--undo")[0] == 0
    assert contents(machine) == before
    code, _, err = configure("--undo")
    assert code == 1
    assert "no backup of this file in --backups" in err


def test_undo_leaves_alone_what_somebody_else_has_changed(configure, machine) -> None:
    configure()
    manifest = machine / "manifests/kube-scheduler.yaml"
    manifest.write_text(manifest.read_text().replace("v1.33.0", "v1.33.5"))
    before = contents(machine)
    code, _, err = configure("--undo")
    assert code == 1
    assert f"{manifest} was changed after configure-scheduler wrote it" in err
    assert contents(machine) == before


def test_without_its_certificates_kube_scheduler_would_not_start(configure, machine) -> None:
    (machine / "leadsman/client.key").unlink()
    before = contents(machine)
    code, _, err = configure()
    assert code == 1
    assert f"{machine}/leadsman/client.key missing" in err
    assert contents(machine) == before
    assert configure("--elsewhere")[0] == 0


@pytest.mark.parametrize(
    "url", ["http://10.96.0.17:9001", "10.96.0.17:9001", "https://", "https://:9001", "https://h:port", "https://fd::1"]
)
def test_only_https_is_configured(configure, machine, capsys: pytest.CaptureFixture[str], url: str) -> None:
    before = contents(machine)
    with pytest.raises(SystemExit) as ended:
        configure(url=url)
    assert ended.value.code == 2
    assert "IPv6 address in [brackets]" in capsys.readouterr().err
    assert contents(machine) == before


def test_a_write_that_fails_is_said_and_leaves_the_old_file(
    configure, machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename of the manifest, the last step."""
    real = Path.replace

    def failing(path, target):
        if Path(target).is_relative_to(machine / "manifests"):
            raise OSError(28, "No space left on device", str(target))
        return real(path, target)

    before = (machine / "manifests/kube-scheduler.yaml").read_text()
    monkeypatch.setattr(Path, "replace", failing)
    code, _, err = configure()
    assert code == 1
    assert "No space left on device" in err
    assert (machine / "manifests/kube-scheduler.yaml").read_text() == before
    assert os.listdir(machine / "manifests") == ["kube-scheduler.yaml"]
    monkeypatch.undo()
    assert configure("--undo")[0] == 0
    assert not (machine / "leadsman/scheduler.yaml").exists()
