"""The testbed's certificates, as clients judge them."""

import contextlib
import ssl

import pytest

from leadsman.testbed.certificates import CertificateAuthority


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_strict_verification_accepts_them(name: str) -> None:
    """It is the default of Python 3.13, and so of a client in our image."""
    authority = CertificateAuthority()
    client = ssl.create_default_context(cadata=authority.pem)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    serving = authority.server_context(name).wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, serving, asking, serving):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert asking.version() == "TLSv1.3"
