"""The table of workloads, change by change."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.inputs import PlacedPod
from leadsman.sources.cluster.workload_follower import WorkloadTable

WEB = ("ns", "deployment", "web")


def test_a_table_that_was_taken_does_not_change() -> None:
    workloads = WorkloadTable()
    workloads.put("ns", ("pod", "a"), [WEB], PlacedPod("a", "n1"))
    workloads.publish()
    taken = workloads.table
    workloads.drop("ns", ("pod", "a"))
    workloads.publish()
    assert taken == {("ns", "web"): {"deployment": (PlacedPod("a", "n1"),)}}


pods, nodes = st.sampled_from("abcd"), st.sampled_from([None, "n1", "n2"])
owners = st.lists(st.tuples(st.just("ns"), st.sampled_from(["job", "cronjob"]), st.sampled_from("xy")), max_size=2)
puts = st.tuples(pods, owners.map(lambda some: tuple(dict.fromkeys(some))), nodes)


@given(st.lists(st.one_of(puts, pods), max_size=20), st.integers(1, 5))
def test_changes_one_by_one_equal_the_table_of_what_is_left(steps, every) -> None:
    workloads, left = WorkloadTable(), {}
    for number, step in enumerate(steps):
        if isinstance(step, str):
            workloads.drop("ns", ("pod", step))
            left.pop(step, None)
        else:
            pod, of, node = step
            workloads.put("ns", ("pod", pod), of, node and PlacedPod(pod, node))
            left[pod] = (of, node)
        if number % every == 0:
            workloads.publish()
    workloads.publish()
    assert workloads.table == expected(left)


def expected(left):
    table = {}
    for pod, (of, node) in sorted(left.items()):
        for namespace, kind, name in of:
            kinds = table.setdefault((namespace, name), {})
            kinds[kind] = kinds.get(kind, ()) + ((PlacedPod(pod, node),) if node else ())
    return table
