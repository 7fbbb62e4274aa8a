"""What planners propose is what kube-scheduler and the extender accept, and what a failure needs is held."""

from tests.mutations.mutation import Mutation

SITUATION = "leadsman/planning/situation.py"
AT_PROPOSALS = "leadsman/planning/test_proposals.py::"

MUTATIONS = (
    Mutation(
        "planners know what a pod asks of devices",
        "leadsman/decision/model.py",
        "NO_DEMAND if pod.devices is None else pod.devices,",
        "NO_DEMAND,",
        AT_PROPOSALS + "test_a_pod_is_not_evicted_for_a_card_that_is_full",
    ),
    Mutation(
        "the controller's planners ask the filters of plugins",
        "controller/parts.py",
        "            self.plugins.judge_of_plan,\n",
        "",
        "controller/test_planning_inputs.py::test_no_planner_is_offered_a_node_that_a_plugin_refuses",
    ),
    Mutation(
        "the controller's planners see what is reserved of devices",
        "controller/keeper.py",
        "replace(await self.reserved_inputs(), views=views)",
        "replace(self.inputs(), views=views)",
        "controller/test_planning_inputs.py::test_no_planner_gives_away_a_device_while_nobody_says_what_is_reserved",
    ),
    Mutation(
        "a plan of the command line asks the filters of plugins",
        "leadsman/cli/plan_inputs.py",
        "with_devices_of(self.cluster, inputs), self.judge)",
        "with_devices_of(self.cluster, inputs))",
        "leadsman/cli/test_move_plans.py::test_no_pod_is_drained_to_a_node_that_a_plugin_of_the_policy_refuses",
    ),
    Mutation(
        "what would be decided on a pod has kube-scheduler's part where the cluster is known",
        "leadsman/cli/what_if.py",
        "for node, kind in Feasibility(cluster, pod).kinds().items()}",
        "for node, kind in ()}",
        "leadsman/cli/test_what_if.py::test_what_kube_scheduler_refuses_is_said_too",
    ),
    Mutation(
        "a drain tries every node for every pod",
        "leadsman/planning/moves/drain.py",
        "if self._leave([each for each in leaving if each is not wish]):",
        "if True:",
        "leadsman/planning/moves/test_drain.py::test_a_small_node_is_emptied_whenever_that_can_be_done",
    ),
    Mutation(
        "a drain moves one pod of another node aside",
        "leadsman/planning/moves/drain.py",
        " or any(map(self._leave_after, self._movable()))",
        "",
        "leadsman/planning/moves/test_drain.py::test_a_small_node_is_emptied_whenever_that_can_be_done",
    ),
    Mutation(
        "what was not found in the time is not called impossible",
        "leadsman/planning/moves/drain.py",
        "DrainEnd.OUT_OF_TIME if everything.is_late else DrainEnd.IMPOSSIBLE",
        "DrainEnd.IMPOSSIBLE",
        "leadsman/planning/moves/test_drain.py::test_what_is_not_found_in_the_time_is_not_called_impossible",
    ),
    Mutation(
        "a move is checked again once its room is held",
        "leadsman/planning/moves/mover.py",
        "(held and (reason := self._why_impossible(move, pod)))",
        '(reason := "")',
        "leadsman/planning/moves/test_plan_run.py::"
        "test_a_node_that_may_not_have_the_pod_any_more_once_its_room_is_held_costs_no_eviction",
    ),
    Mutation(
        "no pod is evicted before its room is held",
        "leadsman/planning/moves/mover.py",
        "if not held or why_not_evictable(pod, self.cluster):",
        "if why_not_evictable(pod, self.cluster):",
        "leadsman/planning/replacement/test_plan.py::test_a_move_is_rolled_back_when_its_room_is_not_held_in_time",
    ),
    Mutation(
        "nobody goes back within the cooldown to the node that he was taken from",
        "leadsman/planning/moves/mover.py",
        "self._is_recent(departure) or departure.returns >= self._settings.max_returns",
        "departure.returns >= self._settings.max_returns",
        "leadsman/planning/rebalance/test_planner.py",
    ),
    Mutation(
        "a pod is given up whose successors came back",
        "leadsman/planning/moves/mover.py",
        "if returns < self._settings.max_returns:",
        "if True:",
        "leadsman/planning/rebalance/test_planner.py",
    ),
    Mutation(
        "no pod moves where another one would lose its bound to it",
        "leadsman/planning/moves/search.py",
        "if asked and not self._situation.lost_bound({**moved, pod.uid: node}):",
        "if asked:",
        "leadsman/planning/moves/test_search.py",
    ),
    Mutation(
        "no pod moves where another one would lose its backup",
        "leadsman/planning/moves/ordering.py",
        "if not plan.backups.keys() >= self.plans[-1].backups.keys():",
        "if False:",
        "leadsman/planning/moves/test_ordering.py::test_every_prefix_keeps_bounds_capacity_with_reserves_budgets_and_backups",
    ),
    Mutation(
        "a plan that is paused undoes what has evicted nothing",
        "leadsman/planning/moves/mover.py",
        'return "" if move.plan == self._running_plan else "its plan does not go on"',
        'return ""',
        "leadsman/planning/moves/test_plan_run.py::test_a_paused_plan_evicts_nothing_until_it_is_resumed",
    ),
    Mutation(
        "a plan of a cluster that is old is refused",
        "leadsman/planning/moves/plan_run.py",
        "if abs(age) > limits.max_age_seconds:",
        "if False:",
        "leadsman/planning/moves/test_plan_run.py::test_a_plan_of_another_time_or_with_a_pod_that_is_gone_is_refused",
    ),
    Mutation(
        "moves ask the filters of plugins too",
        SITUATION,
        "refused = self.judge(info, self.candidates, inputs).refused",
        "refused = filter_nodes(info, self.candidates, inputs).refused",
        AT_PROPOSALS + "test_a_pod_is_not_evicted_for_a_node_that_a_plugin_refuses",
    ),
    Mutation(
        "a node's devices are those of the pods that are supposed to be there",
        SITUATION,
        "    return _with_devices(inputs, devices) if devices else inputs",
        "    return inputs",
        AT_PROPOSALS + "test_of_two_pods_that_leave_for_one_card_the_second_finds_it_full",
    ),
    Mutation(
        "a backup is asked for in the cluster as it is after the failure",
        "leadsman/planning/backups/planner.py",
        "self._after = {domain: situation.failed(failure.nodes) for domain, failure in self._failures.items()}",
        "self._after = dict.fromkeys(self._failures, situation)",
        "leadsman/planning/backups/test_planner.py",
    ),
    Mutation(
        "a place in an optimised plan that lacks memory is said to",
        "leadsman/planning/optimise/optimised_plan.py",
        "after.holding(reserves).verdict(after.cluster.pods[uid]).kinds()",
        "after.bound_refusals(after.cluster.pods[uid])",
        "leadsman/planning/optimise/test_answer.py::test_a_pod_too_large_for_the_nodes_in_its_bounds_says_memory",
    ),
    Mutation(
        "pods that ask for devices are counted one by one",
        "leadsman/planning/capacity/fit_model.py",
        '        (pod.devices, "it asks for devices"),\n',
        "",
        AT_PROPOSALS + "test_pods_that_fit_are_accepted",
    ),
)
