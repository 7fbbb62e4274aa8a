"""etcd: what its gateway lets through, for whom and how much; what heals by itself."""

from tests.mutations.mutation import Mutation

CLIENTS, GATEWAY, ROLES = (f"leadsman/etcd/{name}.py" for name in ("clients", "gateway", "roles"))
CARE = "leadsman/etcd/member_care.py"
AT = "leadsman/etcd/test_gateway.py::"
AT_CARE = "leadsman/etcd/test_member_care.py::"
REFUSED = AT + "test_an_agent_is_refused_whatever_else_it_asks"
WRITES = AT + "test_nobody_writes_what_is_anothers"
NO_RIGHT = AT + "test_a_token_that_gives_no_right_gets_the_reason"
MUCH = AT + "test_one_agent_gets_no_more_than_it_needs_and_the_others_all_they_need"

MUTATIONS = (
    Mutation(
        "a token gives its own node's role",
        CLIENTS,
        "return agent_role(_node(status.user))",
        'return agent_role("node-b")',
        AT + "test_an_agent_claims_its_node_and_reads_what_it_needs",
    ),
    Mutation(
        "a token for another audience gives no role",
        CLIENTS,
        "if AUDIENCE not in status.audiences:",
        "if False:",
        NO_RIGHT + "[for-another-audience-not for the audience]",
    ),
    Mutation(
        "only a service account of ours has a role",
        CLIENTS,
        'name.removeprefix(kind) if name.startswith(kind) else ""',
        "name.removeprefix(kind)",
        NO_RIGHT + "[of-a-person-of-that-name-has no part in etcd]",
    ),
    Mutation(
        "a token is reviewed again",
        CLIENTS,
        "if role and now - reviewed_at < REVIEW_AGAIN_SECONDS:",
        "if role:",
        AT + "test_a_stolen_token_ends_with_its_pod",
    ),
    Mutation(
        "an API server that is away prolongs no token without end",
        CLIENTS,
        "if role and now - reviewed_at < TRUSTED_WITHOUT_REVIEW_SECONDS:",
        "if role:",
        AT + "test_a_token_is_reviewed_once_and_outlives_an_api_server_that_is_away_but_not_itself",
    ),
    Mutation(
        "each address has its own share of reviews",
        CLIENTS,
        "self._take_review(address)",
        'self._take_review("")',
        AT + "test_who_shows_ever_new_tokens_keeps_neither_the_api_server_busy_nor_who_is_known_out",
    ),
    Mutation(
        "a right to read is no right to write",
        ROLES,
        "or (write and self.kind != READ_WRITE)",
        "or False",
        WRITES + "[of-extender-/leadsman/v1/nodes/node-a/heartbeat]",
    ),
    Mutation(
        "a range without an end is refused",
        ROLES,
        "if end == _ALL_THAT_FOLLOW or",
        "if",
        REFUSED + "[all that follows]",
    ),
    Mutation(
        "both branches of a transaction are checked",
        ROLES,
        "return self.success + self.failure",
        "return self.success",
        REFUSED + "[in the other branch]",
    ),
    Mutation(
        "a lease is its role's",
        ROLES,
        "if not is_own_lease(role, lease):",
        "if False:",
        AT + "test_no_agent_renews_ends_or_uses_another_ones_lease",
    ),
    Mutation(
        "an agent's requests are counted",
        CLIENTS,
        "if not self._requests.try_take():",
        "if False:",
        MUCH + "[requests-requests a second]",
    ),
    Mutation(
        "an agent's bytes are counted",
        CLIENTS,
        "if not self._bytes.try_take(len(request.body)):",
        "if False:",
        MUCH + "[bytes-bytes a second]",
    ),
    Mutation(
        "an agent's leases are counted",
        CLIENTS,
        'if path == "/v3/lease/grant" and',
        "if False and",
        MUCH + "[leases-more leases than]",
    ),
    Mutation(
        "an agent's keys are counted",
        CLIENTS,
        "if len(lasting) > LASTING_KEYS:",
        "if False:",
        MUCH + "[keys-keys without a lease]",
    ),
    Mutation(
        "what one member denies another is asked",
        "leadsman/state/etcd_http.py",
        "except (Unavailable, Denied):",
        "except Unavailable:",
        AT + "test_what_one_member_denies_another_is_asked",
    ),
    Mutation(
        "a full etcd is emptied of its history",
        CARE,
        'if any("NOSPACE" in error for error in status.errors):',
        "if False:",
        AT_CARE + "test_a_full_store_takes_writes_again_without_a_hand[members0]",
    ),
)
