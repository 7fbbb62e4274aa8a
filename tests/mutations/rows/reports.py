"""What one node may say of its delays."""

from tests.mutations.mutation import Mutation

MUTATIONS = (
    Mutation(
        "what one end alone reports counts as no less than others say",
        "leadsman/decision/delay/rtt_table.py",
        "reading[doubted] = np.where(",
        "np.where(",
        "leadsman/decision/delay/test_implausible.py::test_a_plausible_report_counts_as_no_less_than_others_say",
    ),
    Mutation(
        "one unreadable value of Goldpinger costs its pair alone",
        "leadsman/sources/delay/goldpinger.py",
        "        reporter = _REPORTER_OF_RAW_PEERS.decode(raw)",
        "        raise",
        "leadsman/sources/delay/test_goldpinger_response.py::test_a_value_that_cannot_be_read_is_named_and_costs_its_pair_alone",
    ),
    Mutation(
        "one reporter never sets a limit alone",
        "leadsman/network/plausibility.py",
        'np.quantile(largest, share, method="lower")',
        "largest.max()",
        "leadsman/network/test_plausibility.py::test_one_reporter_never_sets_a_limit_alone",
    ),
    Mutation(
        "implausible reports are left out of estimates",
        "leadsman/sources/delay/fitted_estimates.py",
        "    implausible = plausibility.implausible(reports)\n    trusted, discredited",
        "    implausible = np.zeros(len(measured.source), np.bool_)\n    trusted, discredited",
        "leadsman/sources/delay/test_liars.py::test_a_lie_about_one_node_is_left_out_and_estimated",
    ),
    Mutation(
        "one implausible report names nobody",
        "leadsman/network/plausibility.py",
        "np.asarray(2 * of > out_of)",
        "np.asarray(of > 0)",
        "leadsman/sources/delay/test_contradictions.py::test_at_most_one_honest_node_in_a_hundred_is_contradicted_though_many_have_an_implausible_report",
    ),
    Mutation(
        "a lie that the other end denies is named",
        "leadsman/network/plausibility.py",
        "implausible & (reports.at_other_end(implausible.astype(float)) == 0)",
        "np.zeros_like(implausible)",
        "leadsman/sources/delay/test_contradictions.py::test_one_lie_is_left_out_and_contradicted_once_the_other_end_measures",
    ),
    Mutation(
        "one of few reporters makes nobody farther",
        "leadsman/network/plausibility.py",
        "least = np.min(rows, axis=0)",
        "least = rows[0]",
        "leadsman/network/test_plausibility.py::test_one_of_few_reporters_makes_a_node_no_farther_than_the_others_alone_say",
    ),
    Mutation(
        "few reporters discredit nobody",
        "leadsman/network/plausibility.py",
        "(MIN_REPORTERS, ENOUGH_TO_JUDGE))",
        "(MIN_REPORTERS, MIN_REPORTERS))",
        "leadsman/network/test_plausibility.py::test_one_of_few_reporters_has_no_report_of_the_node_left_out",
    ),
    Mutation(
        "a node that answers nobody is not believed alone",
        "leadsman/network/plausibility.py",
        "is_evasive = ~is_placed &",
        "is_evasive = is_placed & ~is_placed &",
        "leadsman/network/test_plausibility.py::test_nothing_that_a_node_alone_reports_is_believed_while_nobody_that_probes_it_gets_a_reply",
    ),
)
