"""The command line."""

from tests.mutations.mutation import Mutation

SCHEDULER_CONFIG = "leadsman/cli/scheduler_config.py"
AT_OTHER_EXTENDERS = "leadsman/cli/configure/test_beside_other_extenders.py::"

MUTATIONS = (
    Mutation(
        "another extender of our resource makes way",
        SCHEDULER_CONFIG,
        "if resource not in managed:",
        "if True:",
        AT_OTHER_EXTENDERS + "test_tas_is_replaced_as_its_own_script_set_it_up",
    ),
    Mutation(
        "pods that request the resource are not left without an extender that manages it",
        SCHEDULER_CONFIG,
        'if "managedResources" not in ours:',
        "if False:",
        AT_OTHER_EXTENDERS + "test_pods_that_request_the_resource_would_wait_without_their_extender",
    ),
    Mutation(
        "what kube-scheduler would not start with is not written",
        SCHEDULER_CONFIG,
        "    _check_extenders([*present[:place], ours, *present[place + 1 :]])\n",
        "",
        AT_OTHER_EXTENDERS + "test_what_kube_scheduler_would_refuse_is_refused_and_nothing_written",
    ),
    Mutation(
        "a configuration of an older version becomes v1 in its plugins' arguments too",
        SCHEDULER_CONFIG,
        "if value_at(data, *path) == version",
        "if False",
        AT_OTHER_EXTENDERS + "test_older_versions_become_v1",
    ),
    Mutation(
        "no command sends a stranger's control characters to the terminal",
        "leadsman/runtime/text_table.py",
        "return self.unescaped.write(printable(text))",
        "return self.unescaped.write(text)",
        "leadsman/cli/test_main.py::test_no_command_sends_control_characters_of_strangers_to_the_terminal",
    ),
    Mutation(
        "doctor names one fault, not its consequences, where no API server answers",
        "leadsman/cli/doctor_checks.py",
        "    if isinstance(seen.server_version, Denied):\n        return findings\n",
        "",
        "leadsman/cli/diagnosis/test_doctor.py::test_without_kubectl_it_says_so",
    ),
    Mutation(
        "doctor names a member of etcd whose data differ",
        "leadsman/cli/doctor_checks.py",
        "        elif differs:\n",
        "        elif False:\n",
        "leadsman/cli/diagnosis/test_doctor.py::test_controllers_and_members_of_etcd_say_by_their_metrics_how_they_are",
    ),
    Mutation(
        "explain -f decides on every document of a file",
        "leadsman/cli/explain.py",
        r're.split(r"^---(?=\s|$)", data.decode(), flags=re.MULTILINE)',
        "[data.decode()]",
        "leadsman/cli/test_what_if.py::test_each_document_of_a_file_is_decided",
    ),
    Mutation(
        "an etcd on PATH that is too old for what is asked of it gives way to the package's",
        "leadsman/testbed/etcd.py",
        " and (release_of or _release)(on_path) >= OLDEST",
        "",
        "leadsman/testbed/test_etcd.py::test_what_path_has_counts_where_it_can_do_what_is_asked",
    ),
)
