"""The Dockerfile, read: its context, and what its builders install."""

from pathlib import Path

from tests.dockerfile import Steps


def copied(steps: Steps) -> list[str]:
    """Sources taken from the build context."""
    plain = [arguments.split()[:-1] for name, arguments in steps if name == "COPY" and "--from" not in arguments]
    return [source.rstrip("/") for sources in plain for source in sources]


def test_every_source_exists_and_is_in_the_build_context(steps: Steps, root: Path) -> None:
    ignored = (root / ".dockerignore").read_text().splitlines()
    for source in copied(steps):
        assert f"!{source}" in ignored
        assert (root / source).exists(), source


def test_every_package_that_pip_installs_has_a_hash_in_a_lock(steps: Steps) -> None:
    installs = [arguments for name, arguments in steps if name == "RUN" and " install " in arguments]
    assert len(installs) == 5
    for each in installs:
        assert "--require-hashes -r image/" in each or "--no-deps /wheels/" in each
