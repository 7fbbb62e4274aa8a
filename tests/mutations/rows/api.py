"""The API for people: dead links, what would help, the history, and what a reader may cost."""

from tests.mutations.mutation import Mutation

APP, LIVE, REQUESTS, WHAT_IF = (f"extender/api/{name}.py" for name in ("app", "live", "requests", "what_if"))
AT_APP, AT_LINKS, AT_REMEDIES = (f"extender/api/test_{name}.py::" for name in ("app", "dead_links", "remedies"))
ONLY_WHERE = f"{AT_REMEDIES}test_a_looser_bound_is_said_only_where_nothing_else_refuses"

MUTATIONS = (
    Mutation(
        "one or two lost probes make no dead link",
        "extender/dead_links.py",
        "return not window.received and window.sent >= LEAST_PROBES",
        "return not window.received",
        f"{AT_LINKS}test_a_node_that_is_down_or_unknown_or_hardly_probed_makes_no_dead_link",
    ),
    Mutation(
        "a link to a node that is down is not dead",
        "extender/dead_links.py",
        "if state.latency and state.freshness(now) is Freshness.FRESH",
        "if state.latency",
        f"{AT_LINKS}test_a_node_that_is_down_or_unknown_or_hardly_probed_makes_no_dead_link",
    ),
    Mutation(
        "new windows of a node are looked at",
        "extender/dead_links.py",
        "if known is not None and known[0] is latency:",
        "if known is not None:",
        f"{AT_LINKS}test_new_reports_are_looked_at_and_old_ones_forgotten",
    ),
    Mutation(
        "a dead link fails a check",
        "extender/api/overview.py",
        "    dead = view.dead_links\n",
        "    dead = view.dead_links[:0]\n",
        f"{AT_LINKS}test_it_is_a_problem_a_failing_check_in_a_list_and_on_both_nodes",
    ),
    Mutation(
        "bounds to nothing are said before what would loosen others",
        WHAT_IF,
        "if unresolved := list(_unresolved(bounds, pod, nodes, inputs)):",
        "if unresolved := list[str]():",
        f"{AT_REMEDIES}test_a_bound_to_nothing_is_all_that_is_said[delay_nosuch-no such]",
    ),
    Mutation(
        "a node that something else refuses is not said to pass",
        WHAT_IF,
        "kept = filter_nodes(without, nodes, inputs).kept",
        "kept = tuple(nodes)",
        f"{ONLY_WHERE}[the-nearest-node]",
    ),
    Mutation(
        "a looser bound is decided on before it is said",
        WHAT_IF,
        "if filter_nodes(_with_bound(pod, reference, needed_ms), [node], inputs).kept:",
        "if needed_ms:",
        f"{ONLY_WHERE}[any-bound-that-would-do]",
    ),
    Mutation(
        "between two moments a node answers for itself alone",
        "extender/api/history.py",
        "moved = node_shifts_ms(*_changes(begin, end), len(names)).tolist()",
        "moved = (end.medians_ms - begin.medians_ms).tolist()",
        "extender/api/test_history.py::test_between_two_moments_one_slow_node_accuses_itself_alone[1]",
    ),
    Mutation(
        "a pasted text has an end",
        WHAT_IF,
        'if len(yaml.encode(errors="replace")) > MAX_YAML_BYTES:',
        "if False:",
        "extender/api/test_what_if.py::test_more_than_256_kib_is_refused_unread",
    ),
    Mutation(
        "POSTs are few",
        REQUESTS,
        "if not self._posts.try_take():",
        "if False:",
        f"{AT_APP}test_more_posts_than_are_allowed_are_refused",
    ),
    Mutation(
        "pages of a list have every item once",
        REQUESTS,
        "str(end) if end < len(items) else None",
        "str(end + 1) if end < len(items) else None",
        f"{AT_APP}test_pages_of_a_list_have_every_item_once",
    ),
    Mutation(
        "an answer that is the same is not sent again",
        APP,
        "if fields[hdrs.ETAG] in _named_etags(request):",
        "if False:",
        f"{AT_APP}test_an_answer_that_is_the_same_is_not_sent_again",
    ),
    Mutation(
        "event streams are few",
        LIVE,
        "if self.streams >= MAX_STREAMS:",
        "if False:",
        f"{AT_APP}test_a_change_of_the_state_is_an_event_and_there_are_at_most_32_streams",
    ),
)
