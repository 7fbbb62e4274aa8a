"""Reads and writes the files of `leadsman certs`: <name>.crt and <name>.key for each pair, and etcd's root password.

A key is readable by its owner alone from its first byte. A file is replaced as a whole or not at all.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from leadsman.cli.certs import authority
from leadsman.cli.certs.authority import CertificatePair

PAIR_NAMES = ("ca", "server", "client")
"""Those of extender and scheduler; etcd's are in `etcd_certificates`."""

_PASSWORD_FILE = "etcd-root-password"


class CertsError(Exception):
    """The command would overwrite a file, or its files are missing or do not match. The text says what to do."""


def pair_path(folder: Path, name: str, ending: str) -> Path:
    return folder / f"{name}.{ending}"


def load_pair(folder: Path, name: str) -> CertificatePair:
    """The pair of this name. CertsError when its files are missing or do not match."""
    certificate, key = pair_path(folder, name, "crt"), pair_path(folder, name, "key")
    try:
        return authority.pair_from_pem(certificate.read_bytes(), key.read_bytes())
    except FileNotFoundError as error:
        raise CertsError(f"{error.filename}: no such file; make it with `leadsman certs create`") from error
    except ValueError as error:
        raise CertsError(f"{certificate}, {key}: {error}; want a pair that `leadsman certs create` made") from error


def write_pairs(folder: Path, pairs: Mapping[str, CertificatePair], replace: bool) -> None:
    """Writes all pairs, keys first. CertsError, with nothing written, when a file exists and `replace` is off."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {pair_path(folder, name, "key"): (pair.key_pem, 0o600) for name, pair in pairs.items()}
    files |= {pair_path(folder, name, "crt"): (pair.certificate_pem, 0o644) for name, pair in pairs.items()}
    existing = [str(path) for path in files if path.exists()]
    if existing and not replace:
        raise CertsError(f"{', '.join(existing)} would be overwritten; use renew, another --dir, or --force")
    for path, (content, mode) in files.items():
        _replace(path, content, mode)


def read_password(folder: Path) -> bytes:
    """The password of etcd's user root. CertsError when its file is missing."""
    try:
        return (folder / _PASSWORD_FILE).read_bytes()
    except FileNotFoundError as error:
        raise CertsError(f"{error.filename}: no such file; make it with `leadsman certs renew`") from error


def write_password(folder: Path, password: bytes, replace: bool) -> None:
    """Writes the password, unless there is one and `replace` is off: etcd knows that one."""
    file = folder / _PASSWORD_FILE
    if replace or not file.exists():
        _replace(file, password, 0o600)


def _replace(target: Path, content: bytes, mode: int) -> None:
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
