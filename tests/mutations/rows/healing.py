"""Self-healing: who is dead, what may be done, whose room it is."""

from tests.mutations.mutation import Mutation

VERDICTS = "leadsman/planning/failover/verdicts.py"
AT_DETECTION = "leadsman/planning/failover/test_detection.py::"

MUTATIONS = (
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
    Mutation(
        "a silent API server is no witness: 80 % of the other Leases must change",
        "leadsman/planning/failover/signals.py",
        "if not others or renewed < rules.renewed_ratio * others:",
        "if False:",
        "leadsman/planning/failover/test_detection.py::test_nodes_that_die_at_once_while_two_more_kubelets_cannot_renew_are_suspect",
    ),
    Mutation(
        "failover has a budget",
        "leadsman/planning/recovery_plan.py",
        "    if spent >= allowed:",
        "    if False:",
        "leadsman/planning/recovery/test_plan.py::test_of_three_that_die_one_is_failed_over_and_two_are_withheld",
    ),
    Mutation(
        "no failover while most agents are silent",
        "leadsman/planning/recovery_plan.py",
        "if fresh < budget.fresh_ratio * len(nodes):",
        "if False:",
        "leadsman/planning/recovery/test_plan.py::test_nothing_is_done_while_most_agents_are_silent",
    ),
    Mutation(
        "no failover while most of the zone is silent",
        "leadsman/planning/recovery_plan.py",
        "silent > budget.silent_zone_ratio * len(zone):",
        "False:",
        "leadsman/planning/recovery/test_plan.py::test_nothing_is_done_while_most_of_the_zone_is_silent",
    ),
    Mutation(
        "a delete names the pod's UID",
        "leadsman/kube/client.py",
        'body={"preconditions": {"uid": uid}} if uid else None',
        "body=None",
        "leadsman/kube/test_contract.py::test_a_delete_of_another_uid_is_a_conflict[fake]",
    ),
    Mutation(
        "a taint names the node's UID",
        "controller/node_recovery.py",
        "if node.metadata.uid != uid:",
        "if False:",
        "controller/test_self_healing.py::test_a_node_that_came_back_under_the_name_of_a_dead_one_gets_no_taint",
    ),
    Mutation(
        "preempt evicts no placeholder of others",
        "leadsman/decision/self_healing.py",
        "if not placeholders.isdisjoint(uids) and not _stands_for(node, pod, inputs)",
        "if False",
        "leadsman/decision/healing/test_protected_placeholders.py::test_no_placeholder_gives_way_to_a_stranger",
    ),
    Mutation(
        "placeholders stay when a plugin fails",
        "extender/decider.py",
        "return _also_refused(refused, _without_plugins(pod, asked, inputs, fault)), fault",
        "return _without_plugins(pod, nodes, inputs, fault), fault",
        "extender/test_self_healing.py::test_placeholders_stay_when_a_plugin_fails",
    ),
    Mutation(
        "held room refuses others",
        "leadsman/decision/self_healing.py",
        "if held and pod.owner_uid not in held}",
        "if False}",
        "leadsman/decision/healing/test_healing_filter.py::test_held_room_is_for_the_owner_of_the_hold",
    ),
    Mutation(
        "an eviction waits until its room is known to be held",
        "controller/moves.py",
        " or not self._healed.publishes_hold_of_move(action.uid)",
        "",
        "controller/test_replacement.py::test_an_eviction_waits_until_extenders_can_know_that_the_room_is_held",
    ),
    Mutation(
        "an eviction that was refused waits",
        "controller/moves.py",
        "if now < self._evict_not_before.get(action.uid, 0.0) or",
        "if",
        "controller/test_replacement.py::test_an_eviction_that_a_budget_refuses_is_tried_again_only_when_the_server_says",
    ),
    Mutation(
        "a Lease that ran out is read although peers hear the node",
        VERDICTS,
        "return (*accused, *(node for node in alive if node in run_out))",
        "return accused",
        AT_DETECTION + "test_a_node_whose_kubelet_alone_stopped_is_suspect_once_its_lease_has_run_out",
    ),
    Mutation(
        "Leases that all ran out are not read one by one",
        VERDICTS,
        "if len(run_out) - 1 > (1.0 - rules.renewed_ratio) * (len(leases) - 1):",
        "if False:",
        AT_DETECTION + "test_leases_that_all_stand_still_are_not_read_one_by_one",
    ),
    Mutation(
        "nothing is done about a dead node before extenders can know",
        "controller/node_recovery.py",
        "await self._publish(state)",
        "pass",
        "controller/test_self_healing.py::test_nothing_is_done_before_the_state_is_written",
    ),
    Mutation(
        "room is held before a pod is evicted, and both are written down first",
        "controller/moves.py",
        "await self._state.write(plan.memory.state)",
        "pass",
        "controller/test_replacement.py::test_nothing_is_done_before_the_state_is_written",
    ),
)
