"""Amounts of resources, and a pod's request as kube-scheduler counts it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.cluster.resources import ContainerRequest, Resources, pod_requests

GPU = "example.com/gpu"

small = st.integers(-3, 3)
amounts = st.builds(
    lambda cpu, memory, pods, gpu: Resources(cpu, memory, pods, {GPU: gpu} if gpu else {}), small, small, small, small
)


def cpu(millis, **more):
    return ContainerRequest(Resources(millis), **more)


def test_a_resource_list_is_read_in_millis_bytes_and_whole_units() -> None:
    listed = {"cpu": "1500m", "memory": "2Gi", "pods": "110", GPU: "2", "ephemeral-storage": "1k", "hugepages-2Mi": "0"}
    assert Resources.of(listed) == Resources(1500, 2 << 30, 110, {GPU: 2, "ephemeral-storage": 1000})


@given(amounts, amounts)
def test_subtraction_undoes_addition(one: Resources, other: Resources) -> None:
    assert one + other - other == one
    assert one + other == other + one


@given(amounts, amounts)
def test_it_fits_exactly_when_nothing_falls_short(request: Resources, free: Resources) -> None:
    assert request.fits(free) == (not request.shortfall(free))


@pytest.mark.parametrize(
    ("containers", "init_containers", "millis"),
    [
        ([cpu(100), cpu(200)], [], 300),
        ([cpu(100)], [cpu(500), cpu(400)], 500),
        ([cpu(100)], [cpu(50, restartable=True)], 150),
        # KEP-753: an init container runs beside the sidecars that were started before it, not after it.
        ([cpu(100)], [cpu(50, restartable=True), cpu(300)], 350),
        ([cpu(100)], [cpu(300), cpu(50, restartable=True)], 300),
        ([cpu(100)], [cpu(50, restartable=True), cpu(10), cpu(70, restartable=True)], 220),
    ],
)
def test_containers_add_up_and_init_containers_run_before_them(containers, init_containers, millis) -> None:
    assert pod_requests(containers, init_containers) == Resources(millis, pods=1)


def test_while_a_resize_is_under_way_the_larger_amount_counts() -> None:
    shrinking = ContainerRequest(Resources(100, 50), allocated=Resources(300, 20))
    assert pod_requests([shrinking]) == Resources(300, 50, 1)


def test_what_is_requested_for_the_pod_replaces_its_containers_and_overhead_is_added() -> None:
    pod = pod_requests([ContainerRequest(Resources(100, 50, extended={GPU: 1}))], (), Resources(10), {"cpu": 400})
    assert pod == Resources(410, 50, 1, {GPU: 1})
