"""What a pod asks of devices: units are checked, and a value that cannot be read is named."""

import pytest

from leadsman.cluster.devices.demand import BadDemand, PodClaims, device_demand, extended_requests, readable_demand
from leadsman.sources.cluster.pod_object import ResourceClaimFields

BANDWIDTH, EGRESS = "leadsman.dev/bandwidth", "kubernetes.io/egress-bandwidth"


@pytest.mark.parametrize(
    ("annotations", "bits"),
    [
        ({}, None),
        ({BANDWIDTH: "2Gbit"}, 2 * 10**9),
        ({BANDWIDTH: " 2.5 Gbit "}, 2_500_000_000),
        ({EGRESS: "1.5G"}, 1_500_000_000),
        ({EGRESS: "10M", BANDWIDTH: "1Mbit"}, 1_000_000),
    ],
)
def test_bandwidth_is_read_in_bits(annotations: dict[str, str], bits: int | None) -> None:
    assert device_demand((), annotations).bandwidth_bits == bits


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (BANDWIDTH, "2"),
        (BANDWIDTH, "2GB"),
        (BANDWIDTH, "-2Gbit"),
        (BANDWIDTH, "0Gbit"),
        (BANDWIDTH, ""),
        (BANDWIDTH, "٢Gbit"),
        (BANDWIDTH, "1001Tbit"),
        (EGRESS, "10Mbit"),
        ("leadsman.dev/device-memory", "5 GB"),
        ("leadsman.dev/device-memory", "-1"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_what_is_allowed(annotation: str, value: str) -> None:
    with pytest.raises(BadDemand) as caught:
        device_demand((), {annotation: value})
    assert annotation in str(caught.value)
    assert repr(value) in str(caught.value)
    assert "it must be a" in str(caught.value)


def test_only_extended_resources_are_devices() -> None:
    native: dict[str, str | int | float] = {
        "cpu": "2",
        "memory": "1Gi",
        "hugepages-2Mi": "4Mi",
        "kubernetes.io/x": 1,
        "a.kubernetes.io/y": 1,
    }
    assert extended_requests([native]) == ()
    assert extended_requests([native, {"nvidia.com/gpu": "2"}]) == ({}, {"nvidia.com/gpu": 2})


def test_a_claim_of_a_template_has_its_name_from_the_status() -> None:
    in_spec = [ResourceClaimFields("a", "mine"), *(ResourceClaimFields(name, None, f"of-{name}") for name in "bc")]
    claims = PodClaims.of(in_spec, [ResourceClaimFields("b", "pod-b-x7")])
    assert claims.names == ("mine", "pod-b-x7", "")
    assert claims.templates == ("of-c",), "from which a claim is still to be made"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "example.com/x"])
def test_memory_of_a_card_that_nobody_counts_is_refused_with_the_cards_that_are(resource: str) -> None:
    for containers in (({resource: 1},), ()):
        demand, problem = readable_demand(containers, {"leadsman.dev/device-memory": "5Gi"})
        assert "leadsman.dev/device-memory" in problem
        assert "gpu.intel.com/i915, gpu.intel.com/xe or nvidia.com/gpu" in problem
        assert demand.memory_bytes is None
    asks_one = ({resource: 1}, {"nvidia.com/gpu": 1})
    assert device_demand(asks_one, {"leadsman.dev/device-memory": "5Gi"}).memory_bytes == 5 << 30
