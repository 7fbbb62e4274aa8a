import pytest

from agent.rtt.peer import Locality, PathClass, Peer, path_class


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (("z1", "r1"), ("z1", "r1"), PathClass.SAME_RACK),
        (("z1", "r1"), ("z1", "r2"), PathClass.SAME_ZONE),
        (("z1", ""), ("z1", ""), PathClass.SAME_ZONE),
        (("z1", "r1"), ("z2", "r1"), PathClass.CROSS_ZONE),
        (("", "r1"), ("z1", "r1"), PathClass.UNKNOWN),
        (("z1", "r1"), ("", "r1"), PathClass.UNKNOWN),
    ],
)
def test_the_class_of_a_path_follows_zone_and_rack(here, there, expected) -> None:
    assert path_class(Locality(*here), Peer("n", "10.0.0.1", *there).locality) is expected
