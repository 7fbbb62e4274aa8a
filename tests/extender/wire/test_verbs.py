"""Bodies as kube-scheduler sends them, and bodies that nobody should send."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.wire.bad_request import BadRequest
from extender.wire.pod import read_pod
from extender.wire.verbs import CachedArgsReader, read_args, read_binding
from leadsman.decision.delay.bounds import BadBound, parse_bounds
from leadsman.decision.model import PodInfo
from tests.extender.conftest import captured

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def refusal(data: bytes, read: Any = read_args) -> str:
    with pytest.raises(BadRequest) as caught:
        read(data)
    return str(caught.value)


@pytest.mark.parametrize("keys", [("Pod", "NodeNames"), ("pod", "nodenames"), ("pod", "nodeNames")])
def test_keys_are_read_in_any_spelling_that_go_would_read(keys) -> None:
    assert read_args(body(**{keys[0]: POD, keys[1]: ["a"]})).node_names == ("a",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (body(Pod=None, NodeNames=["a"]), "$.Pod: null or absent; must be"),
        (body(Pod=POD, NodeNames=None, Nodes=None), "$.NodeNames: it and $.Nodes are null; one of them must"),
        (b"{}", "$.Pod: null or absent"),
        (b"null", "$: expected object, got null"),
        (b"", "$: input data was truncated"),
        (b'{"Pod":NaN}', "$: JSON is malformed: invalid character (byte 7)"),
        (b"\xff\xfe", "$: JSON is malformed"),
        (b'{"Pod":{"metadata":{"name":"\xff"}}}', "$.Pod: "),
        (b'{"Pod":{"metadata":{"name":"\\ud800"}}}', "$: "),
        (b'{"Pod":' * 100_000, "$: maximum recursion depth"),
        (b'{"Unknown":' + b"[" * 100_000, "$: maximum recursion depth"),
        (body(pod={"metadata": {}}, nodenames=[]), "$.Pod.metadata: object missing required field name"),
        (body(Pod=POD, NodeNames=["a", 7]), "$.NodeNames[1]: expected str, got int"),
        (body(Pod=POD, NodeNames="a"), "$.NodeNames: expected array | null, got str"),
        (body(Pod=POD, Nodes={"items": [POD, {"metadata": {"name": 1}}]}), "$.Nodes.items[1].metadata.name: expected"),
        (body(Pod=POD, Nodes={"items": [[]]}), "$.Nodes.items[0]: expected object, got array"),
    ],
)  # fmt: skip
def test_a_bad_body_is_refused_by_path(data, words: str) -> None:
    assert refusal(data).startswith(words)


@pytest.mark.parametrize("name", ["..", "a/b", "", "A", "a?b", None, "x" * 254])
@pytest.mark.parametrize("key", ["PodName", "PodNamespace", "Node"])
def test_a_binding_names_only_what_kubernetes_can_name(key: str, name) -> None:
    data = json.loads(captured("bind")) | {key: name}
    assert refusal(json.dumps(data).encode(), read_binding).startswith(f"$.{key}: name {name or ''!r}")


# What is read of a pod.


def read(pod: dict[str, Any]) -> PodInfo:
    return read_pod(json.dumps(pod).encode())


def test_of_a_pods_labels_and_annotations_those_that_are_read_are_kept() -> None:
    labels = {f"l{number}": "x" for number in range(40_000)} | {"app": "shop", "delay_a": "5"}
    meta = POD["metadata"] | {"labels": labels, "annotations": {"other": "x" * 10_000, "leadsman.dev/delay": "b: 5"}}
    pod = read({"metadata": meta})
    assert (pod.labels, pod.annotations) == ({"app": "shop", "delay_a": "5"}, {"leadsman.dev/delay": "b: 5"})
    assert pod.excess == ""


def test_labels_that_decide_and_are_too_many_make_a_pod_that_is_refused() -> None:
    labels = {f"delay_n{number}": "25" for number in range(40_000)}
    pod = read({"metadata": POD["metadata"] | {"labels": labels}})
    with pytest.raises(BadBound, match=r"the labels that Leadsman reads have more than 16,384 bytes .* remove some"):
        parse_bounds(pod)


def test_a_sidecar_s_devices_are_the_pod_s() -> None:
    card = {"name": "card", "restartPolicy": "Always", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    pod = POD | {"spec": {"containers": [{"name": "main"}], "initContainers": [card]}}
    assert read_pod(json.dumps(pod).encode()).devices.amount("nvidia.com/gpu") == 1


def test_a_pod_belongs_to_its_controller() -> None:
    owners = [{"kind": "Node", "name": "n"}, {"kind": "ReplicaSet", "name": "web-5d", "controller": True}]
    metadata = {"name": "p", "labels": {"pod-template-hash": "5d"}, "ownerReferences": owners}
    assert read({"metadata": metadata}).workload == "deployment/web"


# A reader with a memory answers as one without.


@given(st.lists(st.sampled_from("abcdef"), min_size=1), st.randoms())
def test_the_same_nodes_in_another_order_are_the_list_met_first(names: list[str], rng: random.Random) -> None:
    reader = CachedArgsReader()
    first = reader.read_args(body(Pod=POD, Nodes=None, NodeNames=names)).node_names
    assert reader.read_args(body(Pod=POD, Nodes=None, NodeNames=rng.sample(names, len(names)))).node_names is first
    assert set(first) == set(names)


SPELLINGS = st.sampled_from(["NodeNames", "nodeNames", "nodenames", "Nodes", "Pod", "pod"])
VALUES = st.one_of(st.none(), st.lists(st.sampled_from("abc"), max_size=3), st.just(POD), st.just({"items": []}))


@given(st.lists(st.dictionaries(SPELLINGS, VALUES), max_size=6))
def test_any_bodies_are_read_as_without_a_memory(bodies: list[dict[str, Any]]) -> None:
    reader = CachedArgsReader()
    for fields in bodies + bodies:
        assert outcome(reader.read_args, body(**fields)) == outcome(read_args, body(**fields))


def outcome(read: Any, data: bytes) -> Any:
    try:
        return read(data)
    except BadRequest as error:
        return str(error)
