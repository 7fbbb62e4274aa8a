"""What we wrote is known before the watch shows it, and only until then."""

from typing import Any

import pytest

from controller.node_patcher import NodeCache
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata
from tests.controller.followed import listed


def node(version: str, **labels: str) -> PartialObjectMetadata:
    return PartialObjectMetadata(ObjectMeta("n1", resource_version=version, labels=BoundedLabels(labels)))


@pytest.fixture
def watched() -> Any:
    return listed({("", "n1"): node("1")})


def test_an_answer_to_a_patch_counts_until_the_watch_shows_another_version(watched: Any) -> None:
    nodes = NodeCache(watched)
    nodes.record_patch("n1", node("2", hot="violating"))
    (view,) = nodes.views()
    assert (view.labels, view.resource_version) == ({"hot": "violating"}, "2")
    watched.current = {("", "n1"): node("3", other="x")}
    assert nodes.views()[0].labels == {"other": "x"}
    watched.current = {("", "n1"): node("1")}
    assert nodes.views()[0].labels == {}, "it is forgotten for good"
