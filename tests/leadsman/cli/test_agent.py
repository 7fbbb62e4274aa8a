"""What the agent takes from its pod's environment."""

import pytest

from leadsman.cli.agent import has_own_network


@pytest.mark.parametrize(
    ("environ", "own"),
    [
        ({"POD_IP": "10.88.1.7", "HOST_IP": "10.0.0.7"}, True),
        ({"POD_IP": "10.0.0.7", "HOST_IP": "10.0.0.7"}, False),
        ({}, False),
    ],
    ids=["a pod", "a pod with hostNetwork", "no pod"],
)
def test_only_a_pod_without_host_network_has_a_network_of_its_own(environ: dict[str, str], own: bool) -> None:
    assert has_own_network(environ) is own
