"""Libraries imported without what agents and extenders do not need, of which they make or load at once some 4 MB.

aiohttp: the system's CAs, for a TLS context of its own that nobody uses: leadsman.state.etcd_http,
leadsman.kube.http_session and leadsman.sources.delay.goldpinger make theirs when they speak TLS. And frozenlist's C++
library, for lists of a few signals.
prometheus-client: its own HTTP servers and ASGI application; our scrapes are served by aiohttp.
"""

import os
import sys
from collections.abc import MutableMapping
from importlib import import_module
from types import ModuleType

TRIMMED_ENVIRON = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull, "FROZENLIST_NO_EXTENSIONS": "1"}
"""Where OpenSSL looks for CAs; frozenlist's own switch."""

UNUSED_MODULES = ("http.server", "wsgiref.simple_server", "prometheus_client.asgi")


class UnusedModule(ModuleType):
    """Stands for a module of which others take base classes and functions that nobody calls."""

    def __getattr__(self, name: str) -> type[object]:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


def import_libraries() -> None:
    """Before anything else imports them."""
    import_aiohttp()
    import_prometheus_client()


def import_prometheus_client() -> None:
    missing = [name for name in UNUSED_MODULES if name not in sys.modules]
    sys.modules.update({name: UnusedModule(name) for name in missing})
    try:
        import_module("prometheus_client.aiohttp")
    finally:
        for name in missing:
            del sys.modules[name]


def import_aiohttp(environ: MutableMapping[str, str] = os.environ) -> None:
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
