"""Pods with very many options choose among fewer, among which are those that they have."""

from math import isqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leadsman.planning.backups.backup_plan import BackupScope, FailureDomain
from leadsman.planning.backups.reserve import Room
from leadsman.planning.optimise.choices import NO_NODE, Choice, PodOptions, Problem
from leadsman.planning.optimise.cluster_problem import LEAST_NODES, MAX_OPTIONS, restricted


def problem_of(nodes: int, pods: list[PodOptions]) -> Problem:
    names = tuple(f"node-{number}" for number in range(nodes))
    free = np.array([[100 - number % 7] for number in range(nodes)], np.int64)
    domains = tuple((FailureDomain(BackupScope.NODE, name), None, None) for name in names)
    return Problem(Room(names, ("memory",), free, domains), units=(1,), weights=(1,), pods=tuple(pods))


def anywhere(nodes: int, home: int | None = None) -> PodOptions:
    return PodOptions((1,), home, True, tuple(range(nodes)), tuple(range(nodes)), 1)


@given(st.integers(2, 300), st.integers(1, 60), st.data())
def test_what_a_pod_has_stays_possible_and_all_options_are_few(nodes: int, pods: int, data: st.DataObject) -> None:
    node = st.none() | st.integers(0, nodes - 1)
    homes = data.draw(st.lists(node, min_size=pods, max_size=pods))
    start = tuple(NO_NODE if home is None else Choice(home, data.draw(node)) for home in homes)
    whole = problem_of(nodes, [anywhere(nodes, home) for home in homes])
    smaller, cut = restricted(whole, start)
    most = max(LEAST_NODES, isqrt(MAX_OPTIONS // pods))
    assert cut == (pods if nodes**2 > most**2 else 0)
    for before, pod, has in zip(whole.pods, smaller.pods, start, strict=True):
        assert set(pod.places) <= set(before.places)
        assert set(pod.backups) <= set(before.backups)
        assert {has.place} - {None} <= set(pod.places)
        assert {has.backup} - {None} <= set(pod.backups)
        assert len(pod.places) * len(pod.backups) <= max(most**2, LEAST_NODES**2)
    again, _ = restricted(whole, start)
    assert again.pods == smaller.pods
