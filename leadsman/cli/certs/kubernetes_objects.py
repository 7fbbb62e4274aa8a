"""Secrets and ConfigMaps, as `leadsman certs secrets` prints them."""

import base64
from collections.abc import Mapping
from typing import Any

from leadsman.cli.certs.authority import CertificatePair


def tls_secret(name: str, namespace: str, component: str, pair: CertificatePair, ca: bytes) -> dict[str, Any]:
    """A pair, and the certificate of the CA that its clients or servers must chain to."""
    content = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca}
    return _object("Secret", name, namespace, component) | {"type": "kubernetes.io/tls", "data": _encoded(content)}


def opaque_secret(name: str, namespace: str, component: str, content: Mapping[str, bytes]) -> dict[str, Any]:
    return _object("Secret", name, namespace, component) | {"type": "Opaque", "data": _encoded(content)}


def config_map(name: str, namespace: str, component: str, content: Mapping[str, str]) -> dict[str, Any]:
    return _object("ConfigMap", name, namespace, component) | {"data": dict(content)}


def _encoded(content: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in content.items()}


def _object(kind: str, name: str, namespace: str, component: str) -> dict[str, Any]:
    labels = {"name": "leadsman", "instance": "leadsman", "component": component, "part-of": "leadsman"}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()},
        },
    }
