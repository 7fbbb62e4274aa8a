"""aiohttp imported without the system's CAs, of which it makes a TLS context at once: 2 MB of an agent's 45.

Nobody uses that context: clusterstate.transport and apiserver.session make one of their own when they speak TLS.
"""

import os
from collections.abc import MutableMapping
from importlib import import_module

NO_CAS = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
"""Where OpenSSL looks for them."""


def import_aiohttp(environ: MutableMapping[str, str] = os.environ) -> None:
    """Before anything else imports it."""
    before = {name: environ.get(name) for name in NO_CAS}
    environ.update(NO_CAS)
    try:
        import_module("aiohttp")
    finally:
        for name, value in before.items():
            if value is None:
                del environ[name]
            else:
                environ[name] = value
