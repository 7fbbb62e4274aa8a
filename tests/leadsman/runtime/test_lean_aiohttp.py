"""The agent's import of aiohttp: lean, without C++, and TLS with the system's CAs works all the same."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from leadsman.cli import certificates

SAID = """
import os, ssl
from leadsman.runtime.lean_aiohttp import import_aiohttp
before = dict(os.environ)
import_aiohttp()
from aiohttp import connector
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
own = EtcdTransport(EtcdAccess(("https://etcd:2379",)))._tls.current
loaded = "libstdc++" in open("/proc/self/maps").read()
print(len(connector._SSL_CONTEXT_VERIFIED.get_ca_certs()), len(own.get_ca_certs()) > 0, os.environ == before, loaded)
"""


def test_aiohttp_s_own_context_is_empty_ours_has_the_system_s_cas_and_the_environment_is_as_it_was(
    tmp_path: Path,
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_bytes(certificates.create_ca(datetime.now(UTC), 1).certificate_pem)
    told = subprocess.run(
        [sys.executable, "-c", SAID],
        env=os.environ | {"SSL_CERT_FILE": str(authority)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["0", "True", "True", "False"]


def test_the_command_line_itself_imports_no_aiohttp_so_that_an_agent_is_first() -> None:
    asked = "import sys, leadsman.cli.main; print('aiohttp' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
