import datetime

import pytest

from leadsman.kube import events
from leadsman.kube.objects import ObjectReference

AT = datetime.datetime(2026, 11, 21, 1, 2, 3, 4, tzinfo=datetime.UTC)


POD = ObjectReference("Pod", "web", "web-0", "u")


def body(about=POD, **more):
    said = {"reason": "Refused", "note": "too far", "action": "Placing"} | more
    return events.event_body(about, at=AT, controller="leadsman.dev/extender", instance="extender-0", **said)


def test_an_event_stands_in_the_namespace_of_what_it_is_about() -> None:
    event = body()
    assert event["metadata"] == {"generateName": "web-0-", "namespace": "web"}
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "web", "name": "web-0", "uid": "u"}
    assert event["eventTime"] == "2026-11-21T01:02:03.000004+00:00"


def test_of_what_has_no_namespace_it_stands_in_default() -> None:
    event = body(ObjectReference("Node", "", "n1"))
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


@pytest.mark.parametrize(("warning", "kind"), [(False, "Normal"), (True, "Warning")])
def test_an_event_is_normal_or_a_warning(warning: bool, kind: str) -> None:
    assert body(warning=warning)["type"] == kind


def test_a_note_is_cut_where_the_api_server_would_refuse_it() -> None:
    note = body(note="ü" * 2000)["note"]
    assert len(note.encode()) == events.LONGEST_NOTE_BYTES
    assert note == "ü" * 512
