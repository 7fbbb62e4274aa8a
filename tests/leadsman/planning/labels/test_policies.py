"""Policies that come, change and go leave exactly the labels that they should."""

from leadsman.decision.inputs import DecisionInputs, RefusedPolicy, TasPolicies, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem
from leadsman.planning.labels.label_plan import LabelLimits, NodeView
from leadsman.state.snapshot import Snapshot
from tests.leadsman.planning.labels.label_cluster import HOT, Cluster, policy, rule


def test_a_deleted_policy_leaves_nothing_behind_and_at_once() -> None:
    both = policy(deschedule=[rule("m", "GreaterThan", 1)], labeling=[rule("m", "GreaterThan", 1, "x=1")])
    cluster = Cluster("a", limits=LabelLimits())
    cluster.step([both], {"m": {"a": 2}})
    assert len(cluster.ours("a")) == 2
    cluster.step([], {})
    assert cluster.nodes["a"] == NodeView("a", {"kubernetes.io/hostname": "a"})


def test_an_edit_acts_at_once_and_without_hysteresis() -> None:
    cluster = Cluster("a", limits=LabelLimits())
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 100, "x=1")])], {"m": {"a": 101}})
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 110, "x=1")])], {"m": {"a": 101}})
    assert cluster.ours("a") == {}


def test_two_policies_of_one_name_share_the_mark_and_do_not_fight() -> None:
    cluster = Cluster("a")
    one, two = (
        policy("p", namespace, deschedule=[rule(m, "GreaterThan", 1)]) for namespace, m in (("one", "m"), ("two", "n"))
    )
    cluster.step([one, two], {"m": {"a": 2}, "n": {"a": 2}})
    assert cluster.step([one, two], {"m": {"a": 2}, "n": {"a": 2}}).patches == ()
    cluster.step([one, two], {"m": {"a": 0}, "n": {"a": 2}})
    assert cluster.ours("a") == {"p": "violating"}
    cluster.step([one], {"m": {"a": 0}, "n": {"a": 2}})
    assert cluster.ours("a") == {}


def test_nothing_is_done_before_the_policies_are_listed() -> None:
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    made = cluster.round(DecisionInputs(Snapshot(), Policy(), cluster.now))
    assert (made.patches, made.stopped) == ((), ("telemetry policies are not listed yet; labels are left as they are",))


def test_labels_of_a_policy_whose_only_version_is_a_bad_one_stay() -> None:
    """After a restart the last good one is not known; a slip in an edit is no reason to remove what it wrote."""
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    refused = {PolicyKey("ns", "p"): RefusedPolicy(PolicyProblem("spec", "bad"))}
    cluster.round(
        DecisionInputs(
            Snapshot(), Policy(), cluster.now, telemetry=TelemetryInputs(TasPolicies({}, refused, loaded=True))
        )
    )
    assert cluster.ours("a") == {"p": "violating"}
