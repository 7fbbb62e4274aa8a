"""What a recording costs, holds, and survives."""

from tests.mutations.mutation import Mutation

SEGMENTS = "leadsman/sources/recording/test_segments.py"

MUTATIONS = (
    Mutation(
        "a damaged block is left out",
        "leadsman/sources/recording/reader.py",
        "if not unpacker.eof or unpacker.unused_data or len(packed) < length:",
        "if False:",
        f"{SEGMENTS}::test_a_damaged_byte_costs_its_block_alone",
    ),
    Mutation(
        "behind a damaged block the next one is read",
        "leadsman/sources/recording/reader.py",
        "elif (beginning := _next_block(file, at + 1)) is not None:",
        "elif (beginning := None) is not None:",
        f"{SEGMENTS}::test_a_damaged_byte_costs_its_block_alone",
    ),
    Mutation(
        "a block's length is checked before memory is taken",
        "leadsman/sources/recording/reader.py",
        " or length > LARGEST_BLOCK_BYTES:",
        ":",
        f"{SEGMENTS}::test_a_length_costs_no_memory",
    ),
    Mutation(
        "a block is as long as it says",
        "leadsman/sources/recording/reader.py",
        " or len(packed) < length:",
        ":",
        f"{SEGMENTS}::test_a_last_block_whose_length_is_too_large_is_torn",
    ),
    Mutation(
        "names are written in two blocks",
        "leadsman/sources/recording/messages.py",
        "restated = self._names[self._first_restated : self._first_new]",
        "restated = list[str]()",
        "leadsman/sources/recording/test_requests.py::test_names_that_a_lost_block_brought_are_in_the_next_one",
    ),
    Mutation(
        "a request behind a damaged block counts only if its own answer comes out again",
        "extender/replay/judge.py",
        "if not is_whole and",
        "if False and",
        "extender/replay/test_judge.py::test_behind_a_damaged_block_only_what_still_gives_its_own_answer_counts",
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
