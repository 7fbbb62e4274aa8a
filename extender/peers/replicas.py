"""The other extenders: where they are, and the certificate that each shows the others.

Both ends of a connection show a certificate of the name under which the replicas are found. It is neither
kube-scheduler's, which may not read journals, nor one that kube-scheduler's listener accepts.
"""

import ssl
from pathlib import Path

from msgspec import Struct

from extender.peers.client import HostPort
from leadsman.runtime.client_tls import ClientTls
from leadsman.runtime.mutual_tls import TlsFiles


class ReplicaSettings(Struct, frozen=True):
    """listen: where the others ask this process. hosts: where it asks them.

    folder: with tls.crt, tls.key and ca.crt, as a Secret is mounted.
    controllers: where it asks the controllers for their plan, which show the same certificate; (): they are not asked.
    """

    listen: HostPort
    hosts: tuple[HostPort, ...]
    folder: Path
    controllers: tuple[HostPort, ...] = ()

    @property
    def files(self) -> TlsFiles:
        """Of the listener."""
        names = frozenset(host for host, _ in self.hosts)
        return TlsFiles(self.folder / "tls.crt", self.folder / "tls.key", self.folder / "ca.crt", names)

    def client_tls(self) -> ClientTls:
        """Of connections to the others. leadsman.runtime.watched_files.UnusableFile."""
        files = self.files

        def context() -> ssl.SSLContext:
            try:
                made = ssl.create_default_context(cafile=files.client_ca)
                made.load_cert_chain(files.certificate, files.key, password="")
            except OSError as error:  # ssl.SSLError is one.
                raise ValueError(f"{error}; must be a certificate, its unencrypted key and a CA, as PEM") from error
            return made

        paths = (files.certificate, files.key, files.client_ca)
        return ClientTls("other extenders", paths, context(), context)
