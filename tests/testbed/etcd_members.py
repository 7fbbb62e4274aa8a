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
