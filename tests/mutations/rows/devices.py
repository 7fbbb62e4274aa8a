"""Devices: what keeps a card or a link from being given to more pods than it has room for."""

from tests.mutations.mutation import Mutation

RESERVATIONS = "leadsman/sources/device_reservations.py"
AT_RESERVATIONS = "leadsman/sources/test_device_reservations.py::"
AT_FILTER = "leadsman/decision/devices/test_device_filter.py::"

MUTATIONS = (
    Mutation(
        "a reservation of a pod with many kept nodes counts on every node",
        RESERVATIONS,
        "and not self._source.is_settled(uid):",
        "and record.nodes is not None and not self._source.is_settled(uid):",
        AT_RESERVATIONS + "test_whichever_kept_node_is_taken_no_card_is_given_twice_however_many_nodes_are_kept[60]",
    ),
    Mutation(
        "a reservation counts before its pod is decided on",
        RESERVATIONS,
        "if (record.order or item.mod_revision) < before",
        "if 0 < record.order < before",
        AT_RESERVATIONS + "test_a_pod_counts_one_that_is_still_being_decided_on_elsewhere",
    ),
    Mutation(
        "a reservation counts however old its revision is",
        RESERVATIONS,
        "if (record.order or item.mod_revision) < before",
        "if before - 60 < (record.order or item.mod_revision) < before",
        AT_RESERVATIONS + "test_a_reservation_counts_however_much_was_written_since",
    ),
    Mutation(
        "a reservation is kept until its pod is seen bound",
        RESERVATIONS,
        "and not self._source.is_settled(uid):",
        "and not record.order:",
        AT_RESERVATIONS + "test_the_third_pod_is_refused_whichever_replica_is_asked",
    ),
    Mutation(
        "without etcd a pod that needs a reservation is refused",
        "leadsman/decision/devices/device_filter.py",
        "if inputs.devices.reservations_problem:",
        "if False:",
        AT_RESERVATIONS + "test_without_the_store_such_pods_are_refused_with_the_reason_and_others_are_not",
    ),
    Mutation(
        "a need that nobody counts is refused",
        "leadsman/cluster/devices/demand.py",
        "    if not any(container.get(card) for container in containers for card in CARD_RESOURCES):\n",
        "    if False:\n",
        "leadsman/cluster/devices/test_demand.py::"
        "test_memory_of_a_card_that_nobody_counts_is_refused_with_the_cards_that_are[amd.com/gpu]",
    ),
    Mutation(
        "a link of which nothing is known has no room",
        "leadsman/decision/devices/device_filter.py",
        "        return NodeFit(UNKNOWN_HEADROOM)\n",
        "        return _FITS\n",
        AT_FILTER + "test_what_the_agent_does_not_report_or_not_freshly_is_unknown",
    ),
    Mutation(
        "a node that does not say what its cards have is refused",
        "leadsman/decision/devices/device_filter.py",
        "        return NodeFit(Refusal(NAME, reason), link.headroom_bits)\n    if reserved",
        "        return link\n    if reserved",
        AT_FILTER + "test_a_node_that_does_not_say_what_one_of_its_cards_has_is_refused_as_unknown",
    ),
)
