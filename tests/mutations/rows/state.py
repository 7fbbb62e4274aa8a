"""What is followed in etcd: freshness, order, and what one node's prefix may hold."""

from tests.mutations.mutation import Mutation

SNAPSHOT = "leadsman/state/snapshot.py"
UPDATES = "leadsman/state/snapshot_updates.py"
STORE = "leadsman/state/etcd_store.py"
AT_SNAPSHOT = "leadsman/state/test_snapshot.py::"
AT_NODE_LIMITS = "leadsman/state/test_node_limits.py::"

MUTATIONS = (
    Mutation(
        "data go stale",
        SNAPSHOT,
        "return Freshness.FRESH if now < self.fresh_until else Freshness.STALE",
        "return Freshness.FRESH",
        AT_SNAPSHOT + "TestFreshness::test_a_heartbeat_that_changed_is_fresh_for_three_of_its_intervals",
    ),
    Mutation(
        "only a heartbeat that changed is a proof",
        UPDATES,
        "and _moved(before.heartbeat, record):",
        "and True:",
        AT_SNAPSHOT + "TestFreshness::test_a_heartbeat_written_again_unchanged_proves_nothing",
    ),
    Mutation(
        "what a watch missed proves nothing",
        "leadsman/state/follower.py",
        "None if batch.backlog else now, now,",
        "now, now,",
        "leadsman/state/test_follower.py::test_what_changed_while_the_line_was_lost_is_not_fresh_until_it_changes_again",
    ),
    Mutation(
        "no older sample after a newer one",
        UPDATES,
        "newer = (c for c in changes if c.mod_revision > before.revision)",
        "newer = iter(changes)",
        AT_SNAPSHOT + "TestChanges::test_a_change_that_is_no_newer_was_seen_already",
    ),
    Mutation(
        "no proof outlives another store",
        UPDATES,
        "if before.cluster_id == cluster_id and revision >= before.revision else {}",
        "",
        AT_SNAPSHOT + "TestListing::test_no_proof_outlives_another_store_or_one_that_went_back",
    ),
    Mutation(
        "a store that went back is noticed",
        STORE,
        "if header.revision < start - 1:",
        "if False:",
        "leadsman/state/test_etcd_faults.py::TestAnotherStore::"
        "test_a_wiped_store_is_listed_and_nothing_of_the_old_one_remains",
    ),
    Mutation(
        "a silent watch is opened again",
        STORE,
        "_check_created, self._silence_seconds / 2)",
        "_check_created, 1e6)",
        "leadsman/state/test_etcd_faults.py::TestSilent::test_a_call_and_a_watch_end_in_time",
    ),
    Mutation(
        "no interval that no agent may have",
        "leadsman/state/records.py",
        "push_interval_seconds: Annotated[float, Meta(gt=0, le=LONGEST_INTERVAL_SECONDS)]",
        "push_interval_seconds: Annotated[float, Meta(gt=0)]",
        "agent/test_node_ownership.py::test_a_heartbeat_whose_interval_no_agent_may_have_makes_no_node_fresh",
    ),
    Mutation(
        "rewards of one node",
        UPDATES,
        "return key.kind != keys.REWARDS_KIND or usage.pod_types < self._limits.pod_types",
        "return True",
        AT_NODE_LIMITS + "test_of_too_many_rewards_the_first_are_kept_and_the_rest_of_the_node_is_untouched",
    ),
    Mutation(
        "unreadable records of one node",
        UPDATES,
        "more = (not isinstance(change, Deleted)) - is_kept",
        "more = (record is not None) - is_kept",
        AT_NODE_LIMITS + "test_of_too_many_unreadable_records_some_are_named_and_all_are_counted",
    ),
    Mutation(
        "nodes in all",
        UPDATES,
        "return len(self._usage) < self._limits.nodes",
        "return True",
        AT_NODE_LIMITS + "test_nodes_beyond_the_limit_are_ignored_and_those_that_are_there_stay",
    ),
    Mutation(
        "names that would leave their prefix",
        "leadsman/state/keys.py",
        "    if not is_node_name(name):",
        "    if False:",
        "leadsman/state/test_keys.py::test_a_name_that_would_leave_its_prefix_is_refused",
    ),
)
