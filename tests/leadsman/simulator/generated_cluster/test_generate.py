"""Generated clusters are what their specification says, and the same for the same seed."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.cluster.scheduling import Feasibility
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


@given(SPECS)
@settings(max_examples=20)
def test_the_same_specification_gives_the_same_bytes(spec: str) -> None:
    one, other = (b"".join(snapshot_chunks(ClusterSnapshot(*generate(parse_spec(spec))))) for _ in range(2))
    assert one == other


@given(SPECS)
@settings(max_examples=20)
def test_a_pod_with_a_node_may_be_there(spec: str) -> None:
    cluster, inputs = generate(parse_spec(spec.replace("peers=1", "peers=0")))
    for pod in cluster.pods.values():
        if pod.node:
            assert Feasibility(cluster, pod).refusals(pod.node) == ()
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


# What a user may ask for, and what is said of what nobody may.


def test_every_kind_of_value_is_read() -> None:
    spec = parse_spec("zones=3, cpu=500m,memory=2Gi,sizes=256Mi|1Gi,near=4,replicas=2-5,spare=0.25,network=a.txt")
    assert (spec.zones, spec.cpu_millis, spec.memory_bytes) == (3, 500, 2 << 30)
    assert (spec.spare, spec.network) == (0.25, "a.txt")
    assert (spec.sizes_bytes, spec.near, spec.replicas) == ([256 << 20, 1 << 30], "4", "2-5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodez=3", "unknown field `nodez`"),
        ("nodes", "Expected `int`, got `str` - at `$.nodes`"),
        ("nodes=0", "Expected `int` >= 1 - at `$.nodes`"),
        ("nodes=3,nodes=4", "'nodes=4': nodes is given twice"),
        ("spare=nan", "$.spare"),
        ("near=5-2", "near=5-2: allowed is one number or two, such as 2-8"),
        ("memory=-1Gi", "'-1Gi': allowed is an amount of memory above 0"),
        ("sizes=1Gi|", "'' is not a quantity"),
        ("zones=100,racks=100", "zones x racks x nodes are 50000 nodes; allowed are 5000"),
        ("peers=20", "peers=20: allowed is less than the 20 nodes"),
        ("memory=1Gi", "sizes: 4294967296 bytes are more than a node's memory, 1073741824"),
        ("pods=9,spare=0.5", "pods and spare exclude each other"),
    ],
)
def test_a_bad_field_is_named_with_its_value_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(BadSpec, match=re.escape(message)):
        parse_spec(text)
