"""A cluster's DNS, as far as Leadsman asks for it: A records of Services and of headless Services' pods."""

import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.error import URLError

from tests.testbed.kube_apiserver import KubeApiServer

_A, _NXDOMAIN, _TTL_SECONDS = 1, 3, 5
_ANSWER = 0x8580  # RFC 1035, 4.1.1: a response, authoritative, recursion desired and available.
_DOMAIN = "svc.cluster.local"

Records = Mapping[str, list[str]]


class ClusterDns:
    """Answers on UDP port 53 of the address, until the process ends, with what the API server had a second ago."""

    def __init__(self, api: KubeApiServer, address: str) -> None:
        self._api, self._records = api, dict[str, list[str]]()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        threading.Thread(target=self._follow, daemon=True).start()
        threading.Thread(target=self._serve, daemon=True).start()

    def _follow(self) -> None:
        while True:
            try:
                services = self._api.call("GET", "/api/v1/services")["items"]
                slices = self._api.call("GET", "/apis/discovery.k8s.io/v1/endpointslices")["items"]
                self._records = records(services, slices)
            except (URLError, OSError):
                pass  # The last answers stay while the API server is away.
            time.sleep(1)

    def _serve(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4096)
            self._socket.sendto(answer(query, self._records), sender)


def records(services: list[Any], slices: list[Any]) -> dict[str, list[str]]:
    """Name → addresses. A headless Service has those of its pods, also of pods that are not ready if it says so."""
    found: dict[str, list[str]] = {}
    headless: dict[tuple[str, str], tuple[str, bool]] = {}
    for service in services:
        name, namespace, spec = service["metadata"]["name"], service["metadata"]["namespace"], service["spec"]
        address = spec.get("clusterIP", "None")
        found[f"{name}.{namespace}.{_DOMAIN}"] = [] if address == "None" else [address]
        if address == "None":
            unready_too = spec.get("publishNotReadyAddresses", False)
            headless[namespace, name] = (f"{name}.{namespace}.{_DOMAIN}", unready_too)
    for piece in slices:
        service_name = piece["metadata"].get("labels", {}).get("kubernetes.io/service-name", "")
        full, unready_too = headless.get((piece["metadata"]["namespace"], service_name), ("", False))
        for endpoint in piece["endpoints"] or [] if full else []:
            if unready_too or endpoint["conditions"].get("ready", True):
                found[full] += endpoint["addresses"]
                if "hostname" in endpoint:
                    found.setdefault(f"{endpoint['hostname']}.{full}", []).extend(endpoint["addresses"])
    return found


def answer(query: bytes, known: Records) -> bytes:
    """The response to a query of one question; NXDOMAIN for every name that is not known."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace").lower())
        at += 1 + query[at]
    question, (kind,) = query[12 : at + 5], struct.unpack("!H", query[at + 1 : at + 3])
    addresses = known.get(".".join(labels))
    rows = [
        struct.pack("!HHHIH", 0xC00C, _A, 1, _TTL_SECONDS, 4) + socket.inet_aton(address)
        for address in (addresses or [])
        if kind == _A
    ]
    flags = _ANSWER | (_NXDOMAIN if addresses is None else 0)
    return query[:2] + struct.pack("!HHHHH", flags, 1, len(rows), 0, 0) + question + b"".join(rows)
