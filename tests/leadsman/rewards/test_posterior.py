"""The node or the app: blame by comparison, the prior from the others, bounded influence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.rewards.pod_types import pod_type
from leadsman.rewards.posterior import SOUND_RATIO, NodePosteriors, Trials, node_posterior, typical_success_ratio
from leadsman.rewards.shared_faults import (
    MAX_LOG_FACTOR,
    NODE_FAULT_RATIO,
    Accusation,
    SharedDoubt,
    accuse,
    shared_doubts,
)

GOOD = Trials(healthy=30.0, recent=5.0)
BAD = Trials(healthy=1.0, recent=0.2, failed=5.0)
TRIALS = st.builds(Trials, st.floats(0, 100), st.floats(0, 5), st.floats(0, 50))


def cluster(**others: Trials) -> dict[str, Trials]:
    return {f"good-{n}": GOOD for n in range(5)} | others


class TestBlame:
    def test_bad_here_is_the_node(self) -> None:
        found = NodePosteriors(cluster(bad=BAD))
        assert (found["bad"].blame_ratio > 0.99, found["bad"].value < 0.4) == (True, True)

    def test_bad_everywhere_is_the_app_and_ranks_no_node_lower(self) -> None:
        found = NodePosteriors({f"node-{n}": BAD for n in range(6)})
        assert all(each.blame_ratio < 0.2 and each.value > 0.98 for each in found.values())

    def test_one_failure_among_the_sound_is_a_doubt(self) -> None:
        assert NodePosteriors(cluster(once=Trials(failed=1.0)))["once"].value < 0.9

    def test_better_than_usual_is_no_fault(self) -> None:
        assert node_posterior(5.0, 0.0, 0.2).blame_ratio <= 0.1

    def test_more_failures_are_never_better(self) -> None:
        values = [node_posterior(1.0, failed / 4, 0.98).value for failed in range(40)]
        assert values == sorted(values, reverse=True)

    def test_frequent_crashes_rank_below_rare_ones_and_those_below_none(self) -> None:
        """Every 10 s, every 60 s, never."""
        found = NodePosteriors(cluster(often=Trials(0.6, 0.1, 10.0), rarely=Trials(2.0, 0.3, 4.0)))
        assert found["often"].lower_ratio < found["rarely"].lower_ratio < found["good-0"].lower_ratio


class TestPrior:
    def test_it_follows_the_others(self) -> None:
        weak = {f"node-{n}": Trials(healthy=7.0, recent=2.0, failed=6.0) for n in range(5)}
        assert NodePosteriors(weak | {"new": Trials()})["new"].expected_ratio < 0.7
        assert NodePosteriors(cluster(new=Trials()))["new"].expected_ratio > 0.9

    def test_few_bad_nodes_do_not_move_what_is_typical(self) -> None:
        ranked = sorted([0.95, *([0.98] * 16), *([0.2] * 4)])
        assert typical_success_ratio(ranked, 0.98) == typical_success_ratio(ranked, 0.2) == 0.98

    def test_a_nodes_own_vote_does_not_count_for_itself(self) -> None:
        ranked = sorted([0.95, 0.2, 0.2, 0.9])
        assert typical_success_ratio(ranked, 0.9) == 0.2
        assert typical_success_ratio(ranked, 0.2) == typical_success_ratio(ranked) == 0.9

    def test_faded_evidence_leaves_the_prior(self) -> None:
        assert NodePosteriors(cluster(repaired=Trials(failed=0.05)))["repaired"].value > 0.98

    def test_more_samples_narrow_the_interval(self) -> None:
        few, many = node_posterior(1.0, 1.0, 0.5), node_posterior(50.0, 50.0, 0.5)
        assert many.samples > few.samples
        assert many.upper_ratio - many.lower_ratio < few.upper_ratio - few.lower_ratio


class TestInfluence:
    @given(TRIALS)
    def test_no_report_lifts_a_node_above_one_that_says_nothing(self, claim: Trials) -> None:
        """And so above no honest node that is beyond doubt."""
        assert NodePosteriors(cluster(liar=claim))["liar"].value <= NodePosteriors(cluster(liar=Trials()))["liar"].value

    @given(st.dictionaries(st.sampled_from("abcdef"), TRIALS))
    def test_all_ratios_are_ratios(self, trials: dict[str, Trials]) -> None:
        for each in NodePosteriors(trials).values():
            assert 0.0 <= each.lower_ratio <= each.expected_ratio <= each.upper_ratio <= 1.0
            assert 0.0 <= each.blame_ratio <= 1.0
            assert 0.0 <= each.value <= 1.0


# What several pod types say of a node together, and several nodes of a rack.

RACK = ("a", "b", "c", "d")
STRONG = Accusation(MAX_LOG_FACTOR, 60.0)
ACCUSATIONS = st.builds(Accusation, st.floats(0, MAX_LOG_FACTOR), st.floats(0, 1e6))


def test_a_failure_of_what_fails_everywhere_accuses_nobody() -> None:
    assert accuse(Trials(recent=1.0, failed=1.0), 0.5, 60.0) is None


def test_one_type_proves_nothing_alone_however_often_it_fails() -> None:
    found = accuse(Trials(failed=1_000.0), 0.98, 60.0)
    assert found is not None
    assert found.log_factor == MAX_LOG_FACTOR
    assert shared_doubts("web", {"db": {"a": found}}, ())["a"].fault_ratio < 0.5


def test_a_failure_that_has_faded_warns_nobody() -> None:
    assert shared_doubts("web", {"db": {"a": Accusation(0.5, 9_000.0)}}, ()) == {}


def test_three_types_prove_it() -> None:
    by_type = {name: {"a": STRONG} for name in ("db", "cache", "log")}
    assert shared_doubts("web", by_type, ())["a"].fault_ratio > 0.95


def test_a_type_s_own_failures_do_not_count_twice() -> None:
    assert shared_doubts("web", {"web": {"a": STRONG}}, ()) == {}


def test_the_doubt_is_as_old_as_the_last_failure() -> None:
    by_type = {"db": {"a": STRONG}, "log": {"a": Accusation(1.0, 5.0)}}
    assert shared_doubts("web", by_type, ())["a"].age_seconds == 5.0


def test_one_node_puts_no_doubt_on_its_rack() -> None:
    by_type = {name: {"a": STRONG} for name in ("db", "cache", "log")}
    assert set(shared_doubts("web", by_type, [RACK])) == {"a"}


def test_two_do_and_three_do_more() -> None:
    two = shared_doubts("web", {"db": {"a": STRONG, "b": STRONG}}, [RACK])
    three = shared_doubts("web", {"db": {"a": STRONG, "b": STRONG, "c": STRONG}}, [RACK])
    assert set(two) == set(RACK)
    assert NODE_FAULT_RATIO < two["d"].fault_ratio < three["d"].fault_ratio
    assert three["d"].fault_ratio > 0.5


def test_another_rack_is_none_of_its_business() -> None:
    found = shared_doubts("web", {"db": {"a": STRONG, "b": STRONG}}, [("a", "x"), ("b", "y")])
    assert set(found) == {"a", "b"}


def test_without_a_doubt_the_prior_is_that_of_one_type() -> None:
    assert SharedDoubt(NODE_FAULT_RATIO, 0.0).sound_ratio == pytest.approx(SOUND_RATIO)


@given(st.dictionaries(st.sampled_from("tuvw"), st.dictionaries(st.sampled_from(RACK), ACCUSATIONS)))
def test_doubts_are_probabilities_and_never_below_the_prior(by_type: dict[str, dict[str, Accusation]]) -> None:
    for doubt in shared_doubts("t", by_type, [RACK]).values():
        assert NODE_FAULT_RATIO - 1e-9 <= doubt.fault_ratio <= 1.0
        assert 0.0 <= doubt.sound_ratio <= SOUND_RATIO + 1e-9


LABELS = {"podtype": "D", "app": "web", "name": "front"}


@pytest.mark.parametrize(
    ("labels", "owner", "kind", "expected"),
    [
        (LABELS, "o", "", "D"),
        ({"app": "web", "name": "front"}, "o", "", "web"),
        ({"name": "front"}, "o", "", "front"),
        ({"podtype": "", "app": "web"}, "o", "", "web"),
        ({}, "db", "StatefulSet", "db"),
        ({}, "pod-1", "Pod", "pod-1"),
        ({"pod-template-hash": "7d4b9"}, "web-7d4b9", "ReplicaSet", "web"),
        ({}, "report-28391234", "Job", "report"),
        ({}, "report-2024", "Job", "report-2024"),
        ({}, "db-28391234", "StatefulSet", "db-28391234"),
    ],
)
def test_the_first_name_there_is_without_what_changes_with_each_run(
    labels: dict[str, str], owner: str, kind: str, expected: str
) -> None:
    assert pod_type(labels, owner, kind) == expected


def test_a_pod_without_label_owner_and_name_has_no_type() -> None:
    assert pod_type({"podtype": "", "pod-template-hash": "7d4b9"}, "-7d4b9", "ReplicaSet") == ""
