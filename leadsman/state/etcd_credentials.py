"""Who we are to etcd: a user whose password is in a file, or one that the issuer gives us for our own token."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct

from leadsman.runtime.client_tls import TlsSetting
from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.state.store import Denied, Unavailable

CREDENTIAL_PATH = "/v1/credential"
_LONGEST_RESPONSE_BYTES = 65_536
_OK, _SERVER_ERROR, _TOO_MANY = 200, 500, 429


class Credential(Struct, frozen=True):
    """A user of etcd and its password."""

    user: str
    password: str = ""

    def __repr__(self) -> str:
        """Leaves out the password."""
        return f"Credential({self.user!r})"


class IssuerAccess(Struct, frozen=True):
    """Where credentials are issued. ValueError without TLS, as a credential would be sent in the clear.

    url: https://HOST:PORT.
    token_file: our service account's token for the issuer's audience; read each time, because kubelet rotates it.
    ca_file: PEM; "": the system's.
    """

    url: str
    token_file: Path
    ca_file: str = ""

    def __post_init__(self) -> None:
        if not self.url.startswith("https://"):
            raise ValueError(f"issuer {self.url!r} must be https://HOST:PORT")

    def read_token(self) -> str:
        """ValueError when the file holds no token."""
        try:
            token = self.token_file.read_bytes().decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"token file {self.token_file}: {error}") from error
        if not token:
            raise ValueError(f"token file {self.token_file}: it is empty; kubelet writes the token there")
        return token


class IssuedCredential:
    """Asks the issuer once, and again after etcd has refused what it gave."""

    def __init__(self, issuer: IssuerAccess) -> None:
        self._issuer = issuer
        self._credential: Credential | None = None
        self._asking = asyncio.Lock()

    def refused(self, credential: Credential) -> bool:
        """etcd knows no such user or password. Whether another one may be asked for."""
        if self._credential == credential:
            self._credential = None
        return True

    async def get(self, session: Callable[[], aiohttp.ClientSession], tls: TlsSetting) -> Credential:
        """Denied when the issuer refuses our token; Unavailable when it cannot say now."""
        async with self._asking:
            if self._credential is None:
                self._credential = await self._ask(session(), tls)
            return self._credential

    async def _ask(self, session: aiohttp.ClientSession, tls: TlsSetting) -> Credential:
        url = f"{self._issuer.url.rstrip('/')}{CREDENTIAL_PATH}"
        try:
            headers = {"Authorization": f"Bearer {self._issuer.read_token()}"}
        except ValueError as error:
            raise Denied(str(error)) from error
        try:
            async with session.post(url, headers=headers, ssl=tls, allow_redirects=False) as response:
                body = await response.content.read(_LONGEST_RESPONSE_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"etcd's issuer {url}: {error or type(error).__name__}") from error
        if response.status != _OK:
            kind = Unavailable if response.status >= _SERVER_ERROR or response.status == _TOO_MANY else Denied
            raise kind(f"etcd's issuer {url}: HTTP {response.status}: {body[:200].decode(errors='replace').strip()}")
        try:
            return msgspec.json.decode(body, type=Credential)
        except UNREADABLE as error:
            raise Unavailable(f"etcd's issuer {url}: no credential in its response") from error


class ConfiguredCredential:
    """A user that was named, and where its password is. user: "": etcd without authentication."""

    def __init__(self, user: str, read_password: Callable[[], str]) -> None:
        self._user, self._read_password = user, read_password

    def refused(self, _: Credential) -> bool:
        return False

    async def get(self, session: Callable[[], aiohttp.ClientSession], tls: TlsSetting) -> Credential:
        """The same as an IssuedCredential's. The password is read at each login."""
        if not self._user:
            return Credential("")
        try:
            return Credential(self._user, self._read_password())
        except ValueError as error:
            raise Denied(str(error)) from error
