import pytest

from leadsman.rewards.pod_types import pod_type

LABELS = {"podtype": "D", "app": "web", "name": "front"}


@pytest.mark.parametrize(
    ("labels", "owner", "kind", "expected"),
    [
        (LABELS, "o", "", "D"),
        ({"app": "web", "name": "front"}, "o", "", "web"),
        ({"name": "front"}, "o", "", "front"),
        ({"podtype": "", "app": "web"}, "o", "", "web"),
        ({}, "db", "StatefulSet", "db"),
        ({}, "pod-1", "Pod", "pod-1"),
        ({"pod-template-hash": "7d4b9"}, "web-7d4b9", "ReplicaSet", "web"),
        ({}, "report-28391234", "Job", "report"),
        ({}, "report-2024", "Job", "report-2024"),
        ({}, "db-28391234", "StatefulSet", "db-28391234"),
    ],
)
def test_the_first_name_there_is_without_what_changes_with_each_run(
    labels: dict[str, str], owner: str, kind: str, expected: str
) -> None:
    assert pod_type(labels, owner, kind) == expected


def test_a_pod_without_label_owner_and_name_has_no_type() -> None:
    assert pod_type({"podtype": "", "pod-template-hash": "7d4b9"}, "-7d4b9", "ReplicaSet") == ""
