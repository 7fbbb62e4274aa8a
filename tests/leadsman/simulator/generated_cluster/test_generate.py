"""Generated clusters are what their specification says, and the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.cluster.scheduling import refusals
from leadsman.decision.delay.delay_plugins import DelayFilter
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.simulator.generated_cluster import BadSpec, generate, parse_spec
from leadsman.sources.cluster_snapshot import ClusterSnapshot, snapshot_chunks

SPECS = st.builds(
    "zones={},racks={},nodes={},spare={},peers={},seed={}".format,
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(2, 4),
    st.sampled_from((0.1, 0.5, 0.9)),
    st.sampled_from((0, 1)),
    st.integers(0, 1000),
)


def file_of(spec: str) -> bytes:
    return b"".join(snapshot_chunks(ClusterSnapshot(*generate(parse_spec(spec)))))


@given(SPECS)
@settings(max_examples=20)
def test_the_same_specification_gives_the_same_bytes(spec: str) -> None:
    assert file_of(spec) == file_of(spec)


@given(SPECS)
@settings(max_examples=20)
def test_a_pod_with_a_node_may_be_there(spec: str) -> None:
    cluster, inputs = generate(parse_spec(spec.replace("peers=1", "peers=0")))
    for pod in cluster.pods.values():
        if pod.node:
            assert refusals(cluster, pod, pod.node) == ()
            assert not DelayFilter().refusals(PodInfo.of(pod), CandidateNodes.of([pod.node]), inputs)


@given(SPECS)
@settings(max_examples=20)
def test_spare_memory_stays_free(spec: str) -> None:
    parsed = parse_spec(spec)
    cluster, _ = generate(parsed)
    used = sum(pod.requests.memory_bytes for pod in cluster.pods.values())
    capacity = parsed.memory_bytes * parsed.node_count
    largest = max(parsed.sizes_bytes)
    assert 1.0 - parsed.spare - largest / capacity <= used / capacity <= 1.0 - parsed.spare


def test_a_bound_is_kept_by_as_many_nodes_as_asked_for() -> None:
    """By one more where two delays are equal to the microsecond."""
    cluster, inputs = generate(parse_spec("zones=2,racks=2,nodes=5,bounded=1,near=4,pods=30"))
    nodes = CandidateNodes.of(cluster.nodes)
    kept = {len(nodes) - len(DelayFilter().refusals(PodInfo.of(pod), nodes, inputs)) for pod in cluster.pods.values()}
    assert min(kept) == 4
    assert max(kept) <= 5


def test_a_matrix_with_too_few_rows_is_refused() -> None:
    with pytest.raises(BadSpec, match="are 20 nodes, but the matrix has 3 rows"):
        generate(parse_spec("network=small"), np.zeros((3, 3)))
