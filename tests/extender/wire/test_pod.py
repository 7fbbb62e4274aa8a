"""What is read of a pod."""

import json
from typing import Any

import pytest

from extender.wire.pod import read_pod
from leadsman.decision.delay.bounds import BadBound, parse_bounds
from leadsman.decision.model import PodInfo

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}


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


def test_a_pod_belongs_to_its_controller_or_to_itself() -> None:
    owners = [{"kind": "Node", "name": "n"}, {"kind": "ReplicaSet", "name": "web-5d", "controller": True}]
    metadata = {"name": "p", "labels": {"pod-template-hash": "5d"}}
    owned = {**metadata, "ownerReferences": owners}
    assert read({"metadata": owned}).workload == "deployment/web"
    assert read({"metadata": metadata}).workload == "pod/p"
    static = {"name": "proxy-n", "ownerReferences": [{"kind": "Node", "name": "n", "controller": True}]}
    assert read({"metadata": static}).workload == "pod/proxy"
