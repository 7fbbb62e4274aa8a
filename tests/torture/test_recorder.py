"""What the recorder says of the views, by which a run knows that all is well again."""

from pathlib import Path

import pytest

from tests.torture.cluster import Cluster
from tests.torture.log import Viewed, ViewedNode
from tests.torture.recorder import Recorder
from tests.torture.shape import EXTENDERS, NODES


@pytest.mark.parametrize(
    ("age_seconds", "missing", "measured"),
    [(3.0, "", True), (6.0, "", False), (3.0, "edge-2", False)],
    ids=["all since", "fresh by an older report", "a pair is missing"],
)
def test_every_pair_is_measured_once_a_report_of_each_node_came_since(
    tmp_path: Path, age_seconds: float, missing: str, measured: bool
) -> None:
    recorder = Recorder(Cluster(tmp_path, 1))
    for name in EXTENDERS:
        nodes = {
            node: ViewedNode("fresh", age_seconds, dict.fromkeys(NODES.keys() - {node, missing}, 3.0), {})
            for node in NODES
        }
        recorder.views[name] = Viewed(100.0, name, 7, nodes)
    assert recorder.all_measured(since=95.0) is measured
