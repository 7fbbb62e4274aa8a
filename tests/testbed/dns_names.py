"""DNS that fails, or has addresses of both families."""

import socket
from typing import Any

import pytest


class Names:
    """A cluster's DNS, for one name. addresses: what it resolves to, as (family, address); (): it fails."""

    name = "members.test"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
        self.addresses: tuple[tuple[socket.AddressFamily, str], ...] = ()
        self._port, self._others = port, socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.resolve)

    def resolve(self, host: Any, *arguments: Any, **settings: Any) -> Any:
        if host != self.name:
            return self._others(host, *arguments, **settings)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(family, socket.SOCK_STREAM, 6, "", (address, self._port)) for family, address in self.addresses]
