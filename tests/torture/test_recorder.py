"""What the recorder says of views and pushes, by which a run knows that all is well, and was."""

from pathlib import Path

import pytest

from leadsman.state import keys
from leadsman.state.records import Heartbeat, encode_record
from leadsman.state.store import Put
from tests.memory_store import MemoryStore
from tests.torture.cluster import Cluster
from tests.torture.log import Pushed, Viewed, ViewedNode
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


async def test_what_is_listed_again_as_it_was_is_no_push(tmp_path: Path) -> None:
    """The watch was compacted away, and etcd was full meanwhile: what it lists then, nobody has written again."""
    store, cluster = MemoryStore(), Cluster(tmp_path, 1)
    recorder = Recorder(cluster)
    for seq in (1, 2):
        await store.write([Put(keys.record_key("edge-1", Heartbeat), encode_record(Heartbeat(1, seq, 5.0)))])
        for _ in range(2):
            await recorder.list_all(store)
    assert [entry.value["seq"] for entry in cluster.log if isinstance(entry, Pushed)] == [1, 2]
