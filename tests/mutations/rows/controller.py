"""The API server, and labels on nodes."""

from tests.mutations.mutation import Mutation

ELECTION = "leadsman/kube/leader_election.py"
LIMITS = "leadsman/planning/labels/limits.py"
TASPOLICY = "leadsman/decision/telemetry/taspolicy_document.py"
AT_ELECTION = "leadsman/kube/test_leader_election.py::"
AT_RESTRAINT = "leadsman/planning/labels/test_restraint.py::"
AT_TASPOLICY = "leadsman/decision/telemetry/test_taspolicy_document.py::"

MUTATIONS = (
    Mutation(
        "a keeper forgets what may not be true since a turn failed",
        "controller/keeper.py",
        "                self.fail()\n",
        "",
        "controller/test_keeper.py::test_a_turn_that_the_api_server_fails_is_said_once_and_made_again",
    ),
    Mutation(
        "Retry-After is obeyed",
        "leadsman/kube/client.py",
        "await asyncio.sleep(wait_seconds)",
        "await asyncio.sleep(0)",
        "leadsman/kube/test_client.py::test_429_is_tried_again_after_the_time_asked_for",
    ),
    Mutation(
        "a response is bounded in bytes",
        "leadsman/kube/client.py",
        "if len(body) > max_bytes:",
        "if False:",
        "leadsman/kube/test_watching_lists.py::test_an_object_larger_than_any_call_takes_is_no_empty_list",
    ),
    Mutation(
        "a holder that cannot renew stops in time",
        ELECTION,
        "began + self.timing.renew_deadline_seconds",
        'float("inf")',
        AT_ELECTION + "test_a_holder_that_cannot_renew_stops_before_anybody_may_take_over",
    ),
    Mutation(
        "a Lease is taken only when it is free",
        ELECTION,
        "return not lease.holder or self._clock() - self._observed_at >= duration",
        "return True",
        AT_ELECTION + "test_the_first_one_leads_and_the_second_waits",
    ),
    Mutation(
        "a keeper acts only while its replica leads",
        "controller/keeper.py",
        "if not (self.on_all_replicas or self.tools.is_leader()):",
        "if False:",
        "controller/test_keeper.py::test_the_leader_acts_and_the_other_replicas_forget",
    ),
    Mutation(
        "a dry run cannot write",
        "controller/parts.py",
        "return self.leader_elector is not None and self.leader_elector.is_leader",
        "return True",
        "controller/test_run.py::test_a_dry_run_cannot_write_even_where_a_keeper_tried",
    ),
    Mutation(
        "a document fits into its ConfigMap",
        "leadsman/published/documents.py",
        "if len(data) > MAX_BYTES:",
        "if False:",
        "leadsman/published/test_self_healing.py::test_a_state_that_no_config_map_holds_is_neither_written_nor_read",
    ),
    Mutation(
        "retries of pods are limited in rate",
        "controller/requeuer.py",
        "if self._touch and self._rate.try_take():",
        "if self._touch:",
        "controller/test_requeuer.py::test_touches_are_rate_limited",
    ),
    Mutation(
        "a tenth of the nodes is marked at most",
        LIMITS,
        "if change.action.node not in self._marks and len(self._marks) >= self._max_marked:",
        "if False:",
        AT_RESTRAINT + "test_at_most_a_tenth_of_the_nodes_is_marked",
    ),
    Mutation(
        "a tenth of a node a second",
        LIMITS,
        'return "" if self.left >= 1 else "mark rate limit reached; the node is marked later"',
        'return ""',
        AT_RESTRAINT + "test_marks_come_at_a_tenth_of_a_node_a_second",
    ),
    Mutation(
        "a label is held for a minute",
        LIMITS,
        "if age < limits.hold_seconds:",
        "if False:",
        AT_RESTRAINT + "test_a_label_is_held_for_a_minute",
    ),
    Mutation(
        "a label that flips is frozen",
        LIMITS,
        "if len(before.flips) >= limits.max_flips_per_hour:",
        "if False:",
        AT_RESTRAINT + "test_a_flapping_metric_changes_a_label_six_times_an_hour",
    ),
    Mutation(
        "a new leader goes on counting flips",
        "leadsman/planning/labels/label_planner.py",
        'if memory.planned_at == float("-inf") and wall_now is not None:',
        "if False:",
        "leadsman/planning/labels/test_change_record.py::test_a_new_leader_holds_back_what_the_last_one_changed_too_often",
    ),
    Mutation(
        "nothing changes while few nodes are fresh",
        "leadsman/planning/labels/desired_labels.py",
        "if fresh < label_inputs.min_fresh_ratio * len(expected):",
        "if False:",
        AT_RESTRAINT + "test_nothing_changes_while_fewer_than_half_of_the_nodes_are_fresh",
    ),
    Mutation(
        "a violation ends with a margin",
        "leadsman/decision/telemetry/telemetry_plugins.py",
        "return value > target - margin",
        "return value > target",
        AT_RESTRAINT + "test_hysteresis_leaves_when_a_fifth_of_the_target_is_won_back",
    ),
    Mutation(
        "a write is not sent once another replica may lead",
        "leadsman/kube/client.py",
        'if req.method != "GET" and not self._may_write():',
        "if False:",
        "leadsman/kube/test_client.py::test_a_write_that_waited_for_a_connection_while_the_lead_ended_is_not_sent",
    ),
    Mutation(
        "labels of a policy are capped",
        TASPOLICY,
        "if count > MAX_LABELS:",
        "if False:",
        AT_TASPOLICY + "test_more_labels_than_a_policy_may_set_are_refused",
    ),
    Mutation(
        "a policy is bounded in bytes",
        TASPOLICY,
        "if size_bytes > MAX_SPEC_BYTES:",
        "if False:",
        AT_TASPOLICY + "test_a_spec_of_a_megabyte_is_refused",
    ),
    Mutation(
        "one policy's fault does not stop another's labels",
        "controller/node_patcher.py",
        'if result == "refused" and len(patch.policies) > 1:',
        "if False:",
        "controller/test_acting.py::test_where_one_policys_label_is_refused_another_s_is_set_in_the_same_round",
    ),
    Mutation(
        "a refused change waits",
        "controller/node_patcher.py",
        "if now < one.due_at}",
        "if False}",
        "controller/test_acting.py::test_a_refused_change_is_tried_again_when_it_is_due_and_ever_more_rarely",
    ),
)
