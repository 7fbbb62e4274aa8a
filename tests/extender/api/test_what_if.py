"""Which YAML is read as a pod."""

import pytest

from extender.api.what_if import MAX_YAML_BYTES, read_pod
from extender.body_limits import RequestRefused
from leadsman.kube.quantity import NANO


def test_what_has_a_limit_and_no_request_is_requested_as_the_api_server_does() -> None:
    resources = "{limits: {nvidia.com/gpu: 2, cpu: 2}, requests: {cpu: 1}}"
    pod = read_pod(f"kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, resources: {resources}}}]}}")
    assert pod.requests is not None
    assert pod.requests["nvidia.com/gpu"] == 2 * NANO
    assert pod.requests["cpu"] == NANO


@pytest.mark.parametrize(
    ("yaml", "why"),
    [
        ("", "the document is not an object"),
        ("[1]", "the document is not an object"),
        ("kind: Service", "kind is 'Service'"),
        ("kind: Pod\nmetadata: 7", "metadata is not an object"),
        ("kind: Deployment\nspec: {template: x}", "template is not an object"),
        ("kind: Pod\nmetadata: {labels: {a: 1}}", "labels"),
        ("kind: Pod\nspec: {containers: [7]}", "container is not an object"),
        ("kind: Pod\nspec: {containers: [{name: c, resources: {limits: 7}}]}", "limits is not an object"),
        ("kind: Pod\nspec: {containers: 7}", "$.Pod.spec.containers"),
        ("a: &x [1]\nb: *x", "alias"),
        ("!!python/object/apply:os.system [ls]", "tag"),
        ("{" * 100, "nesting"),
        ("a: 1\na: 2", "twice"),
    ],
)
def test_what_is_no_pod_is_refused_with_the_reason(yaml: str, why: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_pod(yaml)
    assert refused.value.status == 400
    assert why in str(refused.value)


def test_more_than_256_kib_is_refused_unread() -> None:
    with pytest.raises(RequestRefused) as refused:
        read_pod("#" * (MAX_YAML_BYTES + 1))
    assert refused.value.status == 413
