"""Connections and certificates."""

from tests.mutations.mutation import Mutation

CONNECTIONS = "leadsman/runtime/connections.py"
TLS = "leadsman/runtime/server_tls.py"
AT_CONNECTIONS = "extender/test_connections.py::"
AT_TLS = "extender/test_mutual_tls.py::"

MUTATIONS = (
    Mutation(
        "clients that wait for a start leave the kubelet its connection",
        "leadsman/runtime/http_server.py",
        "if not waiting.locked():",
        "if True:",
        "leadsman/runtime/test_ops_server.py::"
        "test_those_who_wait_for_the_end_of_a_start_leave_the_kubelet_its_connection",
    ),
    Mutation(
        "a lease that strangers renew holds no node",
        "agent/node_ownership.py",
        "if before is None or heartbeat != before.heartbeat:",
        "if True:",
        "agent/test_claims.py::"
        "test_a_lease_that_another_process_renews_for_a_dead_agent_holds_its_node_no_longer_than_it_lasts",
    ),
    Mutation(
        "the page answers for loopback's names alone",
        "extender/api/requests.py",
        "if name not in LOOPBACK_HOSTS:",
        "if False:",
        "extender/api/test_app.py::test_a_request_for_another_host_is_refused[evil.example]",
    ),
    Mutation(
        "a POST to the page comes from the page",
        "extender/api/requests.py",
        'if sender != "same-origin":',
        "if False:",
        "extender/api/test_app.py::test_a_post_or_form_of_another_page_is_refused[Sec-Fetch-Site-cross-site-403]",
    ),
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
    Mutation(
        "an expired server certificate replaces nothing",
        "leadsman/runtime/server_tls.py",
        "check_server_certificate(made, files.certificate)}\n",
        "0.0}\n",
        "extender/test_mutual_tls.py::test_what_no_client_would_accept_replaces_nothing_and_is_said",
    ),
    Mutation(
        "an expired client CA replaces nothing",
        "leadsman/runtime/server_tls.py",
        "client_tls.check_authorities(made, files.client_ca, self._wall_clock())\n",
        "0.0\n",
        "extender/test_mutual_tls.py::test_what_no_client_would_accept_replaces_nothing_and_is_said",
    ),
    Mutation(
        "another CA's server certificate replaces nothing",
        "leadsman/runtime/server_tls.py",
        "if authority == self._authority and self._chains and not chains:",
        "if False:",
        "extender/test_mutual_tls.py::test_what_no_client_would_accept_replaces_nothing_and_is_said",
    ),
    Mutation(
        "an expired client certificate replaces nothing",
        "leadsman/kube/client.py",
        "            check_client_certificate(path)",
        "            pass",
        "leadsman/kube/test_tls_reload.py::test_a_certificate_that_cannot_work_replaces_nothing_and_is_named",
    ),
    Mutation(
        "an expired CA of the API server replaces nothing",
        "leadsman/kube/client.py",
        'check_authorities(made, "the CA", time.time(), "server")',
        "pass",
        "leadsman/kube/test_tls_reload.py::test_an_expired_ca_replaces_nothing",
    ),
    Mutation(
        "clients follow their certificates",
        "leadsman/runtime/client_tls.py",
        "if self._watched.poll():",
        "if False:",
        "leadsman/kube/test_tls_reload.py::test_a_rotated_ca_and_certificate_are_used_by_the_next_connection",
    ),
    Mutation(
        "credentials in URLs are hidden",
        "leadsman/runtime/redaction.py",
        '_USER_INFO.sub(f"{HIDDEN}@", text)',
        "text",
        "leadsman/runtime/test_redaction.py::test_credentials_in_urls_are_hidden_and_nothing_else",
    ),
    Mutation(
        "log lines hide credentials",
        "leadsman/runtime/redaction.py",
        "return hide_credentials(super().format(record))",
        "return super().format(record)",
        "leadsman/runtime/test_redaction.py::test_a_log_line_with_its_traceback_hides_them",
    ),
    Mutation(
        "errors of the API server's client hide credentials",
        "leadsman/kube/client.py",
        'raise Unavailable(hide_credentials(f"{self.access.url}: {type(error).__name__}: {error}")) from error',
        'raise Unavailable(f"{self.access.url}: {type(error).__name__}: {error}") from error',
        "extender/test_binding.py::test_an_error_that_kube_scheduler_is_answered_shows_no_credentials_of_the_url",
    ),
)
