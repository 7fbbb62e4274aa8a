"""The pods that the tests of the reflector watch."""

from typing import Any

from tests.testbed.scripted_api_server import FakeApiServer

PODS_OF_DEFAULT = "/api/v1/namespaces/default/pods"
WEB = f"{PODS_OF_DEFAULT}/web-0"
NEW = f"{PODS_OF_DEFAULT}/web-1"


def pod(node: str = "n1", **more: Any) -> dict[str, Any]:
    return {"spec": {"nodeName": node}} | more


def versions(api: FakeApiServer, verb: str = "watch") -> list[str | None]:
    """The resourceVersions that were asked for."""
    return [asked.query.get("resourceVersion") for asked in api.requests if asked.verb == verb]
