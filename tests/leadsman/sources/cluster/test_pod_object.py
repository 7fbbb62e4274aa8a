"""What the model keeps of a pod's images: those that any pod may have pulled."""

import json
from typing import Any

from leadsman.kube.decoding import decode_json
from leadsman.sources.cluster.pod_object import PodObject


def images(**spec: Any) -> tuple[str, ...]:
    pod = {"metadata": {"uid": "1", "namespace": "shop", "name": "web-1"}, "spec": spec}
    return decode_json(json.dumps(pod).encode(), PodObject).model.images


def test_images_of_containers_and_init_containers_are_kept_once_each() -> None:
    containers = [{"name": "web", "image": "web:1"}, {"name": "proxy", "image": "proxy:1"}]
    init = [{"name": "migrate", "image": "web:1"}, {"name": "fetch", "image": "fetch:1"}]
    assert images(containers=containers, initContainers=init) == ("web:1", "proxy:1", "fetch:1")


def test_an_image_that_needs_the_pod_s_own_secret_or_is_never_pulled_is_not_kept() -> None:
    local = {"name": "web", "image": "web:1", "imagePullPolicy": "Never"}
    assert images(containers=[local, {"name": "proxy", "image": "proxy:1"}]) == ("proxy:1",)
    assert images(containers=[{"name": "web", "image": "web:1"}], imagePullSecrets=[{"name": "registry"}]) == ()
