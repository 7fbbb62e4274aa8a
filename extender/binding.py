"""Binds a pod through the API server: POST …/pods/<name>/binding, core/v1."""

from collections.abc import Callable
from typing import Any

from extender.wire.verbs import BindingArgs
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError
from leadsman.kube.resources import PODS

BIND_TIMEOUT_SECONDS = 5.0


async def bind(
    client: ApiClient, binding: BindingArgs, report_failure: Callable[[ApiError], None] = lambda _: None
) -> str:
    """Binds the pod and returns why it could not be bound, "" once the API server has bound it.

    report_failure: called with the error itself.
    """
    try:
        await client.send(
            ApiRequest("POST", PODS.path(binding.namespace, binding.name, "binding"), body=_body(binding))
        )
    except ApiError as error:
        report_failure(error)
        return str(error)
    return ""


def _body(binding: BindingArgs) -> dict[str, Any]:
    """The Binding object. Given the UID, the API server refuses to bind another pod of the same name."""
    meta = {"name": binding.name, "namespace": binding.namespace} | ({"uid": binding.uid} if binding.uid else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
