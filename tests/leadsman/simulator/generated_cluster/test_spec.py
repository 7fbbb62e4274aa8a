"""What a user may ask for, and what is said of what nobody may."""

import re

import pytest

from leadsman.simulator.generated_cluster import BadSpec, parse_spec


def test_every_kind_of_value_is_read() -> None:
    spec = parse_spec("zones=3, cpu=500m,memory=2Gi,sizes=256Mi|1Gi,near=4,replicas=2-5,spare=0.25,network=a.txt")
    assert (spec.zones, spec.cpu_millis, spec.memory_bytes, spec.spare, spec.network) == (
        3,
        500,
        2 << 30,
        0.25,
        "a.txt",
    )
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
