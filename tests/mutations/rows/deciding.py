"""Decisions: deadlines, turns, and what is not known."""

from tests.mutations.mutation import Mutation

RTT_TABLE = "leadsman/decision/delay/rtt_table.py"
AT_DECIDER = "extender/test_decider.py::"

MUTATIONS = (
    Mutation(
        "deadline of a decision",
        "extender/worker_pool.py",
        "job.timer = loop.call_at(end, self._expire, job, deadline)",
        "job.timer = loop.call_at(end + 1e6, self._expire, job, deadline)",
        AT_DECIDER + "test_a_slow_plugin_holds_the_answer_no_longer_than_the_deadline",
    ),
    Mutation(
        "one decision of a namespace at a time",
        "extender/worker_pool.py",
        "        await alone.acquire()\n",
        "        await alone.acquire()\n        alone.release()\n        alone = asyncio.Lock()\n",
        "extender/test_worker_pool.py::test_a_namespace_with_many_jobs_does_not_keep_another_waiting",
    ),
    Mutation(
        "work stops when nobody waits for it",
        "extender/worker_pool.py",
        "        if job is not None and job.abandoned:\n            raise Abandoned",
        "        return",
        "extender/test_worker_pool.py::test_running_work_ends_at_its_next_checkpoint_past_its_deadline",
    ),
    Mutation(
        "liveness fails when all threads are stuck",
        "extender/worker_pool.py",
        "return self.overdue >= self._max_workers",
        "return False",
        "extender/test_worker_pool.py::test_another_thread_takes_the_place_of_a_stuck_one_until_all_are_stuck_and_liveness_fails",
    ),
    Mutation(
        "a bound that cannot be checked is not met",
        "extender/decider.py",
        "if strict or (inputs.devices.followed and pod.bad_demand) or needs_reservation(pod, inputs):",
        "if False:",
        AT_DECIDER + "test_a_bounded_pod_is_refused_everywhere_when_there_is_no_decision",
    ),
    Mutation(
        "the journal is bounded in bytes",
        "extender/journal.py",
        "while len(self._entries) > self.max_pods or self._too_large():",
        "while len(self._entries) > self.max_pods:",
        "extender/test_journal.py::test_labels_and_annotations_of_pods_count_and_push_out_the_oldest",
    ),
    Mutation(
        "the journal counts pods' labels",
        "extender/journal.py",
        "            + self._pod_bytes\n",
        "",
        "extender/test_journal.py::test_labels_and_annotations_of_pods_count_and_push_out_the_oldest",
    ),
    Mutation(
        "a pod whose bounds were not all read is refused",
        "leadsman/decision/delay/bounds.py",
        "        raise BadBound(pod.excess)",
        "        pass",
        "extender/wire/test_pod.py::test_labels_that_decide_and_are_too_many_make_a_pod_that_is_refused",
    ),
    Mutation(
        "labels of an object are bounded",
        "leadsman/kube/bounded_metadata.py",
        "        if _fits(pairs, cls.max_bytes):",
        "        if True:",
        "leadsman/kube/test_bounded_metadata.py::"
        "test_of_too_many_labels_those_that_are_read_are_kept_and_the_others_counted",
    ),
    Mutation(
        "a score that knows fewer than half of the nodes is neutral",
        "leadsman/decision/decide.py",
        "if score.neutral or fresh >= MIN_KNOWN_RATIO * len(nodes):",
        "if True:",
        "leadsman/decision/test_decide.py::test_fewer_than_half_of_four_fresh_is_neutral",
    ),
    Mutation(
        "where nodes are followed they decide whether a bound's target exists",
        "leadsman/decision/delay/bounds.py",
        "    if inputs.node_roles:",
        "    if False:",
        "leadsman/decision/delay/test_trust.py::"
        "test_where_nodes_are_followed_one_that_is_not_there_is_missing_unless_it_is_a_declared_site",
    ),
    Mutation(
        "a lost direction is no reply, whatever the other one measured",
        RTT_TABLE,
        "(longer < 0) | (worse == NO_REPLY)",
        "longer < 0",
        "leadsman/decision/delay/test_trust.py::test_a_lost_direction_is_no_reply_whatever_the_other_one_measured",
    ),
    Mutation(
        "a report that nobody confirms gains no preference",
        "leadsman/decision/delay/delay_plugins.py",
        "np.where(lone, np.nan, evaluation.rtt_ms[at])",
        "evaluation.rtt_ms[at]",
        "leadsman/decision/delay/test_trust.py::"
        "test_a_liar_whom_nobody_confirms_is_unknown_and_one_whom_the_other_end_measures_gains_nothing",
    ),
    Mutation(
        "a bound that rests on a report that nobody confirms says so",
        "leadsman/decision/delay/explain_delay.py",
        "    if row.measured.lone[at]:",
        "    if False:",
        "leadsman/decision/delay/test_trust.py::"
        "test_a_liar_whom_nobody_confirms_is_unknown_and_one_whom_the_other_end_measures_gains_nothing",
    ),
    Mutation(
        "a reason has no control character",
        "leadsman/decision/model.py",
        "if not self.reason.isprintable():",
        "if False:",
        "leadsman/decision/test_decide.py::test_a_reason_has_no_control_character",
    ),
    Mutation(
        "a bound that cannot be read is told without control characters",
        "leadsman/decision/delay/bounds.py",
        "        super().__init__(one_line(text))",
        "        super().__init__(text)",
        "leadsman/decision/delay/test_trust.py::test_a_reason_has_no_control_character",
    ),
    Mutation(
        "a stale report decides about no delay",
        RTT_TABLE,
        "if freshness is not Freshness.FRESH:",
        "if False:",
        "leadsman/decision/delay/test_one_evaluation.py::"
        "test_filter_score_probes_and_explanation_agree_with_a_slow_reading_of_each_pair",
    ),
    Mutation(
        "what an ended decision computed is not kept",
        "extender/worker_pool.py",
        "        del job.settle, job.result\n",
        "",
        "extender/test_worker_pool.py::test_what_work_had_computed_goes_with_its_end",
    ),
    Mutation(
        "the nodes that bounds of a pod are to are capped",
        "leadsman/decision/delay/bounds.py",
        "if references > MAX_REFERENCES:",
        "if False:",
        "leadsman/decision/delay/test_delay_filter.py::test_bounds_of_one_pod_to_too_many_nodes_are_refused_by_their_number",
    ),
    Mutation(
        "of two ends the larger counts",
        RTT_TABLE,
        "longer = np.maximum(forward, backward)",
        "longer = np.where(backward < 0, forward, backward)",
        "leadsman/decision/delay/test_implausible.py::test_of_two_reports_the_larger_counts_and_may_be_anything",
    ),
    Mutation(
        "a new replica waits for its view",
        "extender/app.py",
        "if waits and not self._is_ready:",
        "if False:",
        "extender/test_readiness.py::test_it_is_ready_as_soon_as_all_is_listed",
    ),
    Mutation(
        "a chance failure keeps a node away for half an hour",
        "leadsman/rewards/reward_updates.py",
        "return 1 if before.recent >= PROOF_TRIALS else",
        "return",
        "leadsman/rewards/test_reward_updates.py::TestFailure::"
        "test_setbacks_are_failures_in_a_row_and_a_first_one_without_any_health_counts_two",
    ),
    Mutation(
        "a node that fails again waits for longer",
        "leadsman/decision/rewards/aged_trials.py",
        "RETRY_HALF_LIVES[aged.reward.setbacks - 1]",
        "RETRY_HALF_LIVES[0]",
        "leadsman/decision/rewards/test_aged_trials.py::"
        "test_a_node_stays_in_doubt_until_it_is_tried_again_however_often_it_failed",
    ),
)
