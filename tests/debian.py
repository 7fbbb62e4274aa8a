"""Debian's packages, as this machine's apt reads them."""

import subprocess


def mirror() -> str:
    """The first that this machine's apt reads."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    if not found:
        raise LookupError("apt-get reads no Debian packages: run `apt-get update`, or add a source of Debian's")
    return found[0]
