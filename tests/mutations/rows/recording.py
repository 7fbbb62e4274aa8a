"""What a recording costs, holds, and survives."""

from tests.mutations.mutation import Mutation

SEGMENTS = "leadsman/sources/recording/test_segments.py"

MUTATIONS = (
    Mutation(
        "a damaged block is left out",
        "leadsman/sources/recording/reader.py",
        "if not unpacker.eof or unpacker.unused_data:",
        "if False:",
        f"{SEGMENTS}::test_a_damaged_byte_costs_what_follows_it_up_to_the_next_full_state",
    ),
    Mutation(
        "behind a damaged block the next full state is read",
        "leadsman/sources/recording/reader.py",
        "elif (beginning := _next_beginning(file, at + 1)) is not None:",
        "elif (beginning := None) is not None:",
        f"{SEGMENTS}::test_a_damaged_byte_costs_what_follows_it_up_to_the_next_full_state",
    ),
    Mutation(
        "a block's length is checked before memory is taken",
        "leadsman/sources/recording/reader.py",
        " or length > LARGEST_BLOCK_BYTES:",
        ":",
        f"{SEGMENTS}::test_a_length_costs_no_memory",
    ),
    Mutation(
        "a small recording has several full states",
        "leadsman/sources/recording/segments.py",
        "min(self._times * self._state_bytes, SEGMENT_SHARE * self._max_bytes)",
        "SEGMENT_SHARE * self._max_bytes",
        f"{SEGMENTS}::test_requests_come_back_in_their_order",
    ),
    Mutation(
        "a request that the writer has no room for is dropped",
        "extender/recorder.py",
        "if self.problem or len(self._waiting) >= MAX_QUEUED:",
        "if self.problem:",
        "extender/test_recorder.py::test_a_writer_that_is_behind_costs_requests_and_no_time",
    ),
    Mutation(
        "annotations that no decision reads are not recorded",
        "leadsman/sources/recording/messages.py",
        " if key in READ_ANNOTATIONS}",
        "}",
        "leadsman/sources/recording/test_requests.py::test_the_request_comes_back",
    ),
)
