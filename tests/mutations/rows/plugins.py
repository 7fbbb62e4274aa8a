"""Plugins: what keeps a stranger's code from hurting an answer."""

from tests.mutations.mutation import Mutation

AT_HOST = "extender/plugins/test_host.py::"

MUTATIONS = (
    Mutation(
        "an answer of a plugin has a deadline",
        "extender/plugins/channel.py",
        "if left <= 0 or not poll.poll(left * 1000):",
        "if not poll.poll():",
        AT_HOST + "test_a_hostile_score_is_neutral_and_then_off[sleeps]",
    ),
    Mutation(
        "a plugin's process has a memory limit",
        "extender/plugins/worker.py",
        "    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))\n",
        "",
        AT_HOST + "test_the_reason_of_a_failure_is_kept[memory]",
    ),
    Mutation(
        "three failures switch a plugin off",
        "extender/plugins/health.py",
        "now + OFF_SECONDS if failures >= FAILURES_UNTIL_OFF else 0.0",
        "0.0",
        AT_HOST + "test_after_three_failures_in_a_row_it_is_off_for_a_minute_and_one_more_is_enough",
    ),
    Mutation(
        "a plugin sees no credentials",
        "extender/plugins/channel.py",
        "env=clean_environment(),",
        "env=None,",
        AT_HOST + "test_its_process_has_no_environment_no_files_of_ours_and_dies_first",
    ),
    Mutation(
        "the kernel ends a plugin before the extender",
        "extender/plugins/worker.py",
        '    Path("/proc/self/oom_score_adj").write_text("1000")\n',
        "",
        AT_HOST + "test_its_process_has_no_environment_no_files_of_ours_and_dies_first",
    ),
    Mutation(
        "an answer that is too long is not read",
        "extender/plugins/channel.py",
        "if length > MAX_ANSWER_BYTES:",
        "if False:",
        AT_HOST + "test_the_reason_of_a_failure_is_kept[length]",
    ),
)
