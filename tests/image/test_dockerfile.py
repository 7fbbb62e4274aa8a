"""The Dockerfile, read: its context, and what its builders install."""

from tests.dockerfile import ROOT, read_steps


def test_every_source_exists_and_is_in_the_build_context() -> None:
    copied = [arguments for name, arguments in read_steps() if name == "COPY" and "--from" not in arguments]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for source in (each.rstrip("/") for arguments in copied for each in arguments.split()[:-1]):
        assert f"!{source}" in ignored
        assert (ROOT / source).exists(), source


def test_every_package_that_pip_installs_has_a_hash_in_a_lock() -> None:
    installs = [arguments for name, arguments in read_steps() if name == "RUN" and " install " in arguments]
    assert len(installs) == 5
    for each in installs:
        assert "--require-hashes -r image/" in each or "--no-deps /wheels/" in each
