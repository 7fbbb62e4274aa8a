"""One domain for every annotation, one place that knows it, and no name in docs that the code does not read."""

import re
import subprocess
from pathlib import Path

import pytest

from leadsman.kube import names
from leadsman.planning.recovery.model import UNREACHABLE_TAINT

ROOT = Path(__file__).parents[3]
KEYS = {value for value in vars(names).values() if isinstance(value, str) and value.startswith(f"{names.DOMAIN}/")}
KEYS.add(UNREACHABLE_TAINT)


def texts(*patterns: str) -> dict[str, str]:
    """Path → text of the checkout's files that are text."""
    command = ["git", "grep", "-I", "--files-with-matches", "-e", "", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {path: (ROOT / path).read_text() for path in listed.stdout.splitlines() if (ROOT / path).is_file()}


def test_every_key_is_of_the_one_domain() -> None:
    assert names.DELAY_ANNOTATION in KEYS
    assert all(re.fullmatch(r"leadsman\.dev/[a-z-]+", key) for key in KEYS)


def test_the_domain_is_written_in_one_file_of_the_code() -> None:
    code = texts("agent/*.py", "controller/*.py", "extender/*.py", "leadsman/*.py")
    assert len(code) > 200
    written = {path for path, text in code.items() if re.search(r"""["']leadsman(\.dev|\.io)?/[a-z]""", text)}
    assert written == {"leadsman/kube/names.py"}


def test_every_annotation_in_docs_and_manifests_is_one_that_the_code_reads() -> None:
    documents = texts("*.md", "docs/*", "examples/*", "daemonset/*", "leadsman/*.py", "agent/*.py")
    named = {key for text in documents.values() for key in re.findall(r"\bleadsman\.(?:dev|io)/[a-z-]*[a-z]", text)}
    not_keys = {"leadsman.io/controller", "leadsman.dev/v"}  # the changelog's old name, and the snapshot's apiVersion
    assert named - not_keys <= KEYS
    assert len(named) > 8


@pytest.mark.parametrize("deprecated", names.DEPRECATED_ANNOTATIONS.values())
def test_a_deprecated_key_is_named_only_where_it_is_read_removed_or_announced(deprecated: str) -> None:
    documents = texts("*.md", "docs/*", "examples/*", "daemonset/*", "*.py")
    naming = {path for path, text in documents.items() if deprecated in text and not path.startswith("tests/")}
    assert naming == {"CHANGELOG.md", "docs/upgrading.md", "leadsman/kube/names.py"}


def test_a_patch_that_writes_a_key_removes_its_deprecated_spelling() -> None:
    assert names.without_deprecated({names.RETRIED_AT_ANNOTATION: "now", "other": "x"}) == {
        names.RETRIED_AT_ANNOTATION: "now",
        "other": "x",
        "leadsman/retried-at": None,
    }
