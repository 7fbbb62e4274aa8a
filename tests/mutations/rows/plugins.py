"""Plugins: what keeps a stranger's code from hurting an answer."""

from tests.mutations.mutation import Mutation

AT_HOST = "extender/plugins/test_host.py::"

MUTATIONS = (
    Mutation(
        "an answer of a plugin has a deadline",
        "extender/plugins/process.py",
        "self._socket.settimeout(seconds)\n            (length,)",
        "self._socket.settimeout(None)\n            (length,)",
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
        "extender/plugins/process.py",
        "now + OFF_SECONDS if failures >= FAILURES_UNTIL_OFF else 0.0",
        "0.0",
        AT_HOST + "test_a_hostile_score_is_neutral_and_then_off[raises]",
    ),
    Mutation(
        "a plugin sees no credentials",
        "extender/plugins/process.py",
        'env={"PATH": os.defpath,',
        'env={**os.environ, "PATH": os.defpath,',
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
        "extender/plugins/process.py",
        "if length > MAX_REPLY_BYTES:",
        "if False:",
        AT_HOST + "test_the_reason_of_a_failure_is_kept[length]",
    ),
    Mutation(
        "an answer that is there counts, however late it is read",
        "extender/plugins/process.py",
        "max(end - self._clock(), 0.0)",
        "end - self._clock() if end > self._clock() else question.cancel() or Future[Answer]().result(0)",
        AT_HOST + "test_an_answer_that_is_there_counts_however_late_the_decision_looks",
    ),
    Mutation(
        "what a plugin forked ends with it",
        "extender/plugins/process.py",
        "os.killpg(process.pid, signal.SIGKILL)",
        "process.kill()",
        AT_HOST + "test_what_a_plugin_forked_ends_with_it",
    ),
    Mutation(
        "a plugin answers for the nodes that it was asked about",
        "extender/plugins/worker.py",
        "        if strangers:",
        "        if False:",
        AT_HOST + "test_a_hostile_score_is_neutral_and_then_off[elsewhere]",
    ),
)
