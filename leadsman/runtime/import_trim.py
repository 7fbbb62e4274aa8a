"""aiohttp imported without what an agent does not need, of which it makes or loads at once 3 MB of an agent's 45.

The system's CAs, for a TLS context of its own: nobody uses that one, leadsman.state.etcd_http and
leadsman.kube.http_session make theirs when they speak TLS. And frozenlist's C++ library, for lists of a few signals.
"""

import os
from collections.abc import MutableMapping
from importlib import import_module

TRIMMED_ENVIRON = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull, "FROZENLIST_NO_EXTENSIONS": "1"}
"""Where OpenSSL looks for CAs; frozenlist's own switch."""


def import_aiohttp(environ: MutableMapping[str, str] = os.environ) -> None:
    """Before anything else imports it."""
    before = {name: environ.get(name) for name in TRIMMED_ENVIRON}
    environ.update(TRIMMED_ENVIRON)
    try:
        import_module("aiohttp")
    finally:
        for name, value in before.items():
            if value is None:
                del environ[name]
            else:
                environ[name] = value
