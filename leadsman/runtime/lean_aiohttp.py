"""Imports aiohttp without what our servers do not need, which is 1.6 of an agent's 41 MB.

These are the system's CAs, of which aiohttp makes a TLS context that nobody uses here (who speaks TLS makes one of its
own, when it does), and frozenlist's C++ library, for lists of a few signals.
"""

import os
from importlib import import_module

WHILE_IMPORTING = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull, "FROZENLIST_NO_EXTENSIONS": "1"}
"""Environment while aiohttp is imported: where OpenSSL looks for CAs, and frozenlist's own switch."""


def import_aiohttp() -> None:
    """Imports aiohttp; call it before anything else does."""
    before = dict(os.environ)
    os.environ.update(WHILE_IMPORTING)
    try:
        import_module("aiohttp")
    finally:
        for name in WHILE_IMPORTING:
            del os.environ[name]
        os.environ.update(before)
