"""The defences, and how each is switched off."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """defence: what is lost. file: below the root. text: in it exactly once. instead: what switches the defence off.
    test: the pytest node, below tests/, that must fail then."""

    defence: str
    file: str
    text: str
    instead: str
    test: str


CONNECTIONS = "leadsman/runtime/connections.py"
BODIES = "extender/body_limits.py"
TLS = "leadsman/runtime/mutual_tls.py"
SNAPSHOT = "leadsman/state/snapshot.py"
STORE = "leadsman/state/etcd_store.py"
REPORTING = "agent/reporting.py"
ELECTION = "leadsman/kube/leader_election.py"
LIMITS = "leadsman/planning/labels/limits.py"
RTT_TABLE = "leadsman/decision/delay/rtt_table.py"

AT_CONNECTIONS = "extender/test_connections.py::"
AT_TLS = "extender/test_mutual_tls.py::"
AT_DECIDER = "extender/test_decider.py::"
AT_SNAPSHOT = "leadsman/state/test_snapshot.py::"
AT_NODE_LIMITS = "leadsman/state/test_node_limits.py::"
AT_REPORTING = "agent/test_reporting.py::"
AT_ELECTION = "leadsman/kube/test_leader_election.py::"
AT_RESTRAINT = "leadsman/planning/labels/test_restraint.py::"
VERDICTS = "leadsman/planning/failover/verdicts.py"
AT_DETECTION = "leadsman/planning/failover/test_detection.py::"
AT_RTT_TABLE = "leadsman/decision/delay/test_rtt_table.py::"

MUTATIONS = (
    # Connections.
    Mutation(
        "connections are capped from accept on",
        CONNECTIONS,
        "if len(self._unproven) >= self.limits.max_unproven_connections and not self._evict_unproven():",
        "if False:",
        AT_TLS + "test_connections_count_from_accept_and_silent_ones_cost_the_scheduler_nothing",
    ),
    Mutation(
        "proven clients have room of their own",
        CONNECTIONS,
        "        del self._unproven[guard]\n        self._proven.add(guard)",
        "        return",
        AT_CONNECTIONS + "test_strangers_evict_one_another_and_never_a_client_that_was_answered",
    ),
    Mutation(
        "a flood evicts its own",
        CONNECTIONS,
        "busiest = Counter(groups.values()).most_common(1)[0][0]",
        "busiest = Counter(groups.values()).most_common()[-1][0]",
        AT_CONNECTIONS + "test_a_flood_from_one_address_leaves_a_new_client_of_another_its_room",
    ),
    Mutation(
        "deadline of the TLS handshake",
        CONNECTIONS,
        "async with asyncio.timeout(self._limiter.limits.header_timeout_seconds):",
        "async with asyncio.timeout(None):",
        AT_TLS + "test_half_a_handshake_is_cut",
    ),
    Mutation(
        "deadline of the headers",
        CONNECTIONS,
        "self._abort_after(self._limiter.limits.header_timeout_seconds)",
        "pass",
        AT_CONNECTIONS + "test_dripping_does_not_prolong_the_header_deadline",
    ),
    Mutation(
        "deadline for a client that does not read",
        CONNECTIONS,
        "self._abort_after(self._limiter.limits.write_timeout_seconds)",
        "pass",
        AT_CONNECTIONS + "test_a_client_that_does_not_read_is_cut",
    ),
    Mutation(
        "nobody is cut within a request",
        CONNECTIONS,
        "for each in self._unproven if not each.in_request}",
        "for each in self._unproven}",
        AT_CONNECTIONS + "test_past_the_cap_nobody_in_a_request_is_cut",
    ),
    Mutation(
        "log lines of strangers are limited",
        "leadsman/runtime/log_limit.py",
        "if not self._tokens[kind].try_take():",
        "if False:",
        "leadsman/runtime/test_log_limit.py::test_a_flood_is_ten_lines_and_then_one_a_minute",
    ),
    Mutation(
        "exact names of clients",
        TLS,
        "welcome = bool(shown & self._files.client_names)",
        "welcome = True",
        AT_TLS + "test_another_name_is_not_let_in_and_named",
    ),
    Mutation(
        "a client certificate of our CA",
        TLS,
        "made.verify_mode = ssl.CERT_REQUIRED",
        "made.verify_mode = ssl.CERT_NONE",
        AT_TLS + "test_the_right_name_by_another_ca_is_not_let_in",
    ),
    Mutation(
        "TLS 1.2 at least",
        TLS,
        "made.minimum_version = ssl.TLSVersion.TLSv1_2",
        "made.minimum_version = ssl.TLSVersion.TLSv1_1",
        AT_TLS + "test_tls_1_1_is_refused_though_the_client_speaks_it",
    ),
    # What is sent.
    Mutation(
        "a body's size, while it comes",
        BODIES,
        "if len(body.data) > self._limits.max_body_bytes:",
        "if False:",
        AT_CONNECTIONS + "test_a_chunked_body_is_capped_while_it_comes",
    ),
    Mutation(
        "a body's size, before it comes",
        BODIES,
        "if (request.content_length or 0) > self._limits.max_body_bytes:",
        "if False:",
        AT_CONNECTIONS + "test_a_length_over_the_cap_is_refused_before_the_body_comes",
    ),
    Mutation(
        "all bodies together",
        BODIES,
        "if self.held_bytes > self._limits.max_held_bytes:",
        "if False:",
        AT_CONNECTIONS + "test_all_bodies_together_are_capped",
    ),
    Mutation(
        "deadline of a body",
        BODIES,
        "async with asyncio.timeout(self._limits.read_timeout_seconds):",
        "async with asyncio.timeout(None):",
        AT_CONNECTIONS + "test_a_body_that_drips_gets_408",
    ),
    Mutation(
        "compressed bodies are not unpacked",
        BODIES,
        'if encoding.lower() != "identity":',
        "if False:",
        "extender/test_app.py::test_a_compressed_body_is_refused_unread",
    ),
    Mutation(
        "JSON that is too deep is the client's fault",
        "leadsman/runtime/decode_errors.py",
        "UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
        "UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)",
        "leadsman/runtime/test_decode_errors.py::test_bytes_that_are_no_text_and_nesting_without_an_end_are_explained_too",
    ),
    # Deciding.
    Mutation(
        "deadline of a decision",
        "extender/worker_pool.py",
        "job.timer = loop.call_later(deadline, self._expire, job, deadline)",
        "job.timer = loop.call_later(1e6, self._expire, job, deadline)",
        AT_DECIDER + "test_a_slow_plugin_holds_the_answer_no_longer_than_the_deadline",
    ),
    Mutation(
        "one decision of a namespace at a time",
        "extender/worker_pool.py",
        "if each not in self._running), None)",
        "if True), None)",
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
        "return self._overdue >= self._max_workers",
        "return False",
        "extender/test_worker_pool.py::test_when_all_are_stuck_calls_overrun_at_once_and_liveness_fails",
    ),
    Mutation(
        "a bound that cannot be checked is not met",
        "extender/decider.py",
        "if _has_strict_bound(pod, inputs.policy) or pod_policy.fails_closed(pod, inputs):",
        "if False:",
        AT_DECIDER + "test_a_bounded_pod_is_refused_everywhere_when_there_is_no_decision",
    ),
    Mutation(
        "the journal is bounded in bytes",
        "extender/journal.py",
        "while len(self._entries) > self.max_pods or self._too_large():",
        "while len(self._entries) > self.max_pods:",
        "extender/test_journal.py::test_the_nodes_held_in_memory_are_bounded",
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
        "extender/test_wire.py::test_labels_that_decide_and_are_too_many_make_a_pod_that_is_refused",
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
        "if fresh >= MIN_KNOWN_RATIO * len(nodes):",
        "if True:",
        "leadsman/decision/test_decide.py::test_fewer_than_half_of_four_fresh_is_neutral",
    ),
    Mutation(
        "a stale report decides about no delay",
        RTT_TABLE,
        "if freshness is Freshness.FRESH:",
        "if True:",
        AT_RTT_TABLE + "test_only_the_fresh_reporter_counts",
    ),
    # Freshness and order.
    Mutation(
        "data go stale",
        SNAPSHOT,
        "return Freshness.FRESH if now < self.fresh_until else Freshness.STALE",
        "return Freshness.FRESH",
        AT_SNAPSHOT + "TestFreshness::test_a_heartbeat_that_changed_is_fresh_for_three_of_its_intervals",
    ),
    Mutation(
        "only a heartbeat that changed is a proof",
        SNAPSHOT,
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
        SNAPSHOT,
        "newer = (c for c in changes if c.mod_revision > before.revision)",
        "newer = iter(changes)",
        AT_SNAPSHOT + "TestChanges::test_a_change_that_is_no_newer_was_seen_already",
    ),
    Mutation(
        "no proof outlives another store",
        SNAPSHOT,
        "if before.cluster_id == listing.cluster_id and listing.revision >= before.revision else {}",
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
    # What one node's prefix may hold.
    Mutation(
        "rewards of one node",
        SNAPSHOT,
        "return key.kind != keys.REWARDS_KIND or usage.pod_types < self._limits.pod_types",
        "return True",
        AT_NODE_LIMITS + "test_of_too_many_rewards_the_first_are_kept_and_the_rest_of_the_node_is_untouched",
    ),
    Mutation(
        "unreadable records of one node",
        SNAPSHOT,
        "if problem is not None and not named and usage.problems >= self._limits.problems:",
        "if False:",
        AT_NODE_LIMITS + "test_of_too_many_unreadable_records_some_are_named_and_all_are_counted",
    ),
    Mutation(
        "nodes in all",
        SNAPSHOT,
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
    # The agent.
    Mutation(
        "one writer a node: each write is guarded",
        REPORTING,
        "await self._store.write([*gone, *puts], ownership.lease, ownership.guard)",
        "await self._store.write([*gone, *puts], ownership.lease)",
        AT_REPORTING + "test_a_report_is_not_written_over_another_owner_though_the_lease_lives",
    ),
    Mutation(
        "one writer a node: another's lease is respected",
        "agent/node_ownership.py",
        "if stored.lease and holder != owner:",
        "if False:",
        "agent/test_node_ownership.py::test_an_identity_under_a_lease_is_left_and_the_refusal_names_its_holder_and_its_lease",
    ),
    Mutation(
        "a stalled agent renews nothing",
        REPORTING,
        "if stalled := self._liveness.stalled():",
        "if stalled := ():",
        AT_REPORTING + "test_a_stalled_loop_lets_the_node_go_stale_and_vanish",
    ),
    Mutation(
        "a full store is asked no more often than one with room",
        REPORTING,
        "return self._interval_seconds() if isinstance(error, OutOfSpace) else self._backoff.next_seconds()",
        "return self._backoff.next_seconds()",
        AT_REPORTING + "test_a_full_store_is_asked_at_the_rate_of_reports",
    ),
    Mutation(
        "a silence of all peers is this node's fault",
        "agent/rtt/local_fault.py",
        "if not self._comparable or self._since is None or now - self._since <= self.silence_limit_seconds:",
        "if True:",
        "agent/rtt/test_local_fault.py::test_a_silence_of_all_peers_is_a_fault_after_the_patience_and_says_how_long",
    ),
    Mutation(
        "a slow collector rests",
        "agent/hardware/quarantine.py",
        "return not running and now >= quarantine.not_before_seconds",
        "return True",
        "agent/hardware/test_quarantine.py::test_over_only_after_the_pause_and_with_the_thread_back",
    ),
    # The API server.
    Mutation(
        "Retry-After is obeyed",
        "leadsman/kube/client.py",
        "await asyncio.sleep(error.retry_after_seconds or 0)",
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
        "who leads no longer writes no more",
        "controller/node_patcher.py",
        "if self._unavailable or not self._is_leader():",
        "if self._unavailable:",
        "controller/test_acting.py::test_who_leads_no_longer_writes_no_more",
    ),
    Mutation(
        "retries of pods are limited in rate",
        "controller/requeuer.py",
        "if self._pending and self._rate.try_take():",
        "if self._pending:",
        "controller/test_requeuer.py::test_touches_are_rate_limited",
    ),
    # Labels.
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
        "a node whose labels flip together is frozen",
        LIMITS,
        "if change.immediate or not self._is_flip(change) or flips < self._max_per_hour:",
        "if True:",
        AT_RESTRAINT + "test_labels_of_one_node_change_back_six_times_an_hour_together",
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
        "leadsman/decision/telemetry/rules.py",
        "return value > target - margin",
        "return value > target",
        AT_RESTRAINT + "test_hysteresis_leaves_when_a_fifth_of_the_target_is_won_back",
    ),
    Mutation(
        "nodes of a partition stay witnesses for the API server",
        VERDICTS,
        "may_be_cut_off = verdict.state is NodeHealth.PARTITION or not",
        "may_be_cut_off = not",
        AT_DETECTION + "test_while_a_zone_is_cut_its_leases_still_count_against_the_death_of_another_node",
    ),
    Mutation(
        "nodes that no zone or rack names stay witnesses for the API server",
        VERDICTS,
        " or not before.observed.location.domains",
        "",
        AT_DETECTION + "test_three_of_nine_that_no_zone_or_rack_names_stay_suspect_when_they_fall_silent_at_once",
    ),
)
