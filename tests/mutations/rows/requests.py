"""What kube-scheduler sends: bodies, and what is decoded of them."""

from tests.mutations.mutation import Mutation

BODIES = "extender/body_limits.py"
AT_CONNECTIONS = "extender/test_connections.py::"

MUTATIONS = (
    Mutation(
        "a body's size, while it comes",
        BODIES,
        "if body.received_bytes > self._limits.max_body_bytes:",
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
    Mutation(
        "names of a request are counted",
        "extender/wire/nodes.py",
        'if listed.count(b",") >= MAX_NODES:',
        "if False:",
        "extender/test_body_memory.py::test_20_000_nodes_are_read_and_no_more",
    ),
    Mutation(
        "nodes of a request are counted while they are decoded",
        "extender/wire/nodes.py",
        "array_like=True, forbid_unknown_fields=True, gc=False",
        "array_like=True, gc=False",
        "extender/test_body_memory.py::test_20_000_nodes_are_read_and_no_more",
    ),
    Mutation(
        "a pod is bounded before it is decoded",
        "extender/wire/arguments.py",
        "    if size > MAX_OBJECT_BYTES:",
        "    if False:",
        "extender/test_body_memory.py::test_9_mb_of_tiny_values_or_of_one_are_refused_at_a_fraction_of_their_size",
    ),
    Mutation(
        "a node is bounded before it is decoded",
        "extender/wire/nodes.py",
        "if (size := memoryview(item).nbytes) > MAX_OBJECT_BYTES:",
        "if (size := 0):",
        "extender/test_body_memory.py::test_9_mb_of_tiny_values_or_of_one_are_refused_at_a_fraction_of_their_size",
    ),
    Mutation(
        "victims are counted before they are decoded",
        "extender/handlers.py",
        "            body.charge(most_preemption_bytes(body.data))\n",
        "",
        "extender/test_body_memory.py::test_victims_are_counted_before_they_are_decoded",
    ),
    Mutation(
        "what is decoded counts with the bodies",
        "extender/handlers.py",
        "        body.charge(REQUEST_BYTES_PER_NODE * len(args.node_names))\n",
        "",
        "extender/test_body_memory.py::test_what_is_decoded_counts_until_the_answer_is_sent",
    ),
    Mutation(
        "a binding is small",
        "extender/wire/verbs.py",
        "if len(body) > _MAX_BINDING_BYTES:",
        "if False:",
        "extender/test_body_memory.py::test_a_binding_of_megabytes_is_refused",
    ),
    Mutation(
        "full nodes are sent in chunks of bounded size",
        "extender/handlers.py",
        "if chunk_bytes >= _CHUNK_BYTES:",
        "if len(chunk) >= 24:",
        "extender/test_responses.py::test_full_nodes_are_sent_in_chunks_of_bounded_size",
    ),
)
