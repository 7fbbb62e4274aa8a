"""Debian's packages, as this machine's apt reads them."""

import subprocess


def mirror() -> str:
    """The one that this machine's apt reads; Debian's own when it reads none."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return found[0] if found else "http://deb.debian.org/debian"
