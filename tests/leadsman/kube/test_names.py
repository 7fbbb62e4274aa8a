"""One domain for every annotation, one place that knows it, and no name in docs that the code does not read."""

import re
import subprocess
from pathlib import Path

from leadsman.kube import names
from leadsman.planning.recovery_plan import UNREACHABLE_TAINT

ROOT = Path(__file__).parents[3]
KEYS = {value for value in vars(names).values() if isinstance(value, str) and value.startswith(f"{names.DOMAIN}/")}
KEYS.add(UNREACHABLE_TAINT)


def texts(*patterns: str) -> dict[str, str]:
    """Path → text of the checkout's files that are text."""
    command = ["git", "grep", "-I", "--files-with-matches", "-e", "", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {path: (ROOT / path).read_text() for path in listed.stdout.splitlines() if (ROOT / path).is_file()}


def test_every_annotation_in_docs_and_manifests_is_one_that_the_code_reads() -> None:
    documents = texts("*.md", "docs/*", "examples/*", "daemonset/*", "leadsman/*.py", "agent/*.py")
    named = {key for text in documents.values() for key in re.findall(r"\bleadsman\.dev/[a-z-]*[a-z]", text)}
    assert named - {"leadsman.dev/v"} <= KEYS, "but for the snapshot's apiVersion"
    assert len(named) > 8
