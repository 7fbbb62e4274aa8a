"""The agent."""

from tests.mutations.mutation import Mutation

REPORTING = "agent/reporting.py"
AT_REPORTING = "agent/test_reporting.py::"
LEDGER = "agent/pods/incident_ledger.py"
AT_LEDGER = "agent/pods/test_incident_ledger.py::"

MUTATIONS = (
    Mutation(
        "one writer a node: each write is guarded",
        REPORTING,
        "await self._store.write([*gone, *puts], ownership.lease, ownership.guard)",
        "await self._store.write([*gone, *puts], ownership.lease)",
        "agent/test_claims.py::test_a_report_is_not_written_over_another_owner_though_the_lease_lives",
    ),
    Mutation(
        "a write that etcd does after its time changes nothing",
        REPORTING,
        "self.fence()\n            raise",
        "raise",
        AT_REPORTING + "test_a_write_that_etcd_does_after_its_time_changes_nothing",
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
        "a lease is renewed before a node could vanish sooner than it is stale",
        "leadsman/state/report_timing.py",
        "return self.stale_seconds + self.push_interval_seconds / 2",
        "return self.push_interval_seconds",
        AT_REPORTING + "test_a_lease_outlives_the_trust_in_the_last_report",
    ),
    Mutation(
        "reads of the ring stretch with the cluster",
        "agent/peering/peer_refresh.py",
        "return times * self.timing().push_interval_seconds",
        "return times * self.settings.timing.push_interval_seconds",
        "agent/peering/test_peer_refresh.py::test_all_agents_together_read_the_ring_67_times_a_second_at_any_size",
    ),
    Mutation(
        "retries stretch with the cluster",
        REPORTING,
        "else stretch * self._backoff.next_seconds()",
        "else self._backoff.next_seconds()",
        AT_REPORTING + "test_retries_of_thousands_of_agents_spread_as_their_reports_do",
    ),
    Mutation(
        "a full store is asked no more often than one with room",
        REPORTING,
        "return self._interval_seconds() if isinstance(error, OutOfSpace) else stretch * self._backoff.next_seconds()",
        "return self._backoff.next_seconds()",
        AT_REPORTING + "test_a_full_store_is_asked_at_the_rate_of_reports",
    ),
    Mutation(
        "a silence of all peers is this node's fault",
        "agent/rtt/peer_stats.py",
        "if not self._comparable or self._since is None or now - self._since <= self.silence_limit_seconds:",
        "if True:",
        "agent/rtt/test_peer_stats.py::test_a_silence_of_all_peers_is_a_fault_after_the_patience_and_says_how_long",
    ),
    Mutation(
        "a loss of a local fault that is known late is none of the peer",
        "agent/rtt/peer_stats.py",
        "if not self._silence.was_fault(sent):",
        "if True:",
        "agent/rtt/test_peer_stats.py::test_a_loss_of_a_local_fault_that_is_known_only_after_it_is_none",
    ),
    Mutation(
        "a raw ICMP socket is read at once, before replies to others fill it",
        "agent/rtt/prober.py",
        "if sock.raw:",
        "if False:",
        "agent/rtt/test_prober.py::test_the_loop_wakes_for_a_raw_socket_alone",
    ),
    Mutation(
        "a slow collector rests",
        "agent/quarantine.py",
        "return not running and now >= quarantine.not_before_seconds",
        "return True",
        "agent/test_quarantine.py::test_over_only_after_the_pause_and_with_the_thread_back",
    ),
    Mutation(
        "an agent's own lists are cut",
        "agent/capped_list.py",
        "if not page.more or len(items) >= self._most:",
        "if not page.more:",
        "agent/pods/test_bind_failures.py::test_of_too_many_records_the_first_are_read_and_that_is_said_once",
    ),
    Mutation(
        "a registry that refuses an image blames no node",
        "agent/pods/incidents.py",
        r"\b40[134] \(?(unauthorized|forbidden)|",
        "",
        "agent/pods/test_incident_causes.py::test_why_a_pod_does_not_start",
    ),
    Mutation(
        "a crash counts once, the seventh too",
        LEDGER,
        "for _ in range(times):",
        "for _ in range(times + (incident.total % 7 == 0)):",
        AT_LEDGER + "test_each_crash_counts_once_whatever_is_seen_of_it",
    ),
    Mutation(
        "a restart count that falls hides no restart",
        LEDGER,
        "if restarts < total - 1:",
        "if False:",
        AT_LEDGER + "test_a_restart_count_that_fell_while_no_agent_ran_hides_none",
    ),
    Mutation(
        "a bound that no probe could show to be broken is refused",
        "leadsman/decision/delay/bounds.py",
        "if float(value) > 1e3 * LONGEST_PROBE_SECONDS:",
        "if False:",
        "leadsman/decision/delay/test_bounds.py::"
        "test_a_bound_above_what_any_probe_waits_for_is_refused_with_the_reason",
    ),
    Mutation(
        "the timeout of a probe is the flag's",
        "leadsman/cli/agent.py",
        "from_flags(args, ProbeSettings, PROBING, ",
        "ProbeSettings(",
        "leadsman/cli/flags/test_options.py::test_the_timeout_of_probes_is_set_by_its_flag",
    ),
    Mutation(
        "a chip that hangs takes no other chip's series",
        "agent/hardware/monitor.py",
        "if not chips:",
        "if True:",
        "agent/hardware/test_monitor.py::test_a_stuck_sensor_is_flagged_and_the_others_are_read",
    ),
)
