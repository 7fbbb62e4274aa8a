"""Stands for a node's kubelet: renews its Lease in kube-node-lease on an API server, by the kubelet's rhythm.

A process in the node's network namespace, with the node's own credentials: what cuts the node off cuts this off too.
Needs nothing but Python, because nine of them run on one machine.
"""

import argparse
import json
import random
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CALL_TIMEOUT_SECONDS = 10.0
RENEW_SHARE, JITTER = 0.25, 0.04
"""Of the duration, between renewals (KEP-589; kubelet's nodeLeaseRenewIntervalFraction)."""

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 7.0
"""After a call that failed, as k8s.io/component-helpers/apimachinery/lease does."""

Call = Callable[[str, str, Any], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node")
    parser.add_argument("--server", required=True, help="URL")
    parser.add_argument("--ca", help="file; the system's without it")
    parser.add_argument("--token", default="")
    parser.add_argument("--duration-seconds", type=int, default=40)
    parser.add_argument("--late-seconds", type=float, default=0.0, help="renew so much later each time")
    args = parser.parse_args()
    call = caller(args.server, args.ca, args.token)
    while True:
        retry_after = FIRST_RETRY_SECONDS
        while not renewed(call, args.node, args.duration_seconds):
            time.sleep(retry_after)
            retry_after = min(2 * retry_after, LAST_RETRY_SECONDS)
        interval = RENEW_SHARE * args.duration_seconds
        time.sleep(interval * random.uniform(1.0, 1.0 + JITTER) + args.late_seconds)


def caller(server: str, ca: str | None, token: str) -> Call:
    tls = ssl.create_default_context(cafile=ca)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(server + path, data, headers, method=method)
        with urlopen(request, timeout=CALL_TIMEOUT_SECONDS, context=tls) as answer:
            return json.load(answer)

    return call


def renewed(call: Call, node: str, duration_seconds: int) -> bool:
    """Whether it went well. A Lease that is not there is created."""
    now = {"renewTime": f"{datetime.now(UTC):%FT%T.%fZ}"}
    try:
        lease = call("GET", f"{LEASES}/{node}", None)
        call("PUT", f"{LEASES}/{node}", {**lease, "spec": {**lease["spec"], **now}})
    except HTTPError as error:
        if error.code != 404:
            return False
        spec = {"holderIdentity": node, "leaseDurationSeconds": duration_seconds, **now}
        try:
            call("POST", LEASES, {"metadata": {"name": node}, "spec": spec})
        except (URLError, OSError):
            return False
    except (URLError, OSError):
        return False
    return True


if __name__ == "__main__":
    main()
