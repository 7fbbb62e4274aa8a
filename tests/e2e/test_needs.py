"""`make e2e` where a machine cannot run it."""

import os
import subprocess
import sys


def test_without_the_binaries_it_is_one_line_and_no_failure() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "E2E_BIN"}
    command = [sys.executable, "-m", "tests.e2e"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith("make e2e: skipped: E2E_BIN is not set")
