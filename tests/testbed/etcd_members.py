"""A cluster of several members of a real etcd."""

from collections.abc import Sequence
from pathlib import Path

from leadsman.testbed.etcd import Etcd


def create_members(data_dir: Path, count: int, flags: Sequence[str] = ()) -> list[Etcd]:
    """One cluster of `count` members, not started. Start all with wait=False, then wait for each."""
    patient = ("--heartbeat-interval=100", "--election-timeout=1000", *flags)
    cluster = [Etcd(data_dir / f"member{i}", name=f"member{i}", flags=patient) for i in range(count)]
    for member in cluster:
        member.initial_cluster = ",".join(f"{other.name}={other.peer_url}" for other in cluster)
    return cluster


def lacks_hashkv(member: Etcd) -> str:
    """Says what to do where data of members cannot be compared; "" where they can."""
    if member.version >= (3, 5, 16):
        return ""
    return "this etcd's gateway has no hashkv: put a newer one on PATH (python -m tests.newer_etcd FOLDER)"
