"""Listings and events applied to a view, by hand and by chance."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from leadsman.kube import object_changes
from leadsman.kube.object_changes import ChangeType, WatchBatch, object_key
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata


def thing(name, version="1", uid="u"):
    return PartialObjectMetadata(ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=version))


things = st.builds(thing, st.sampled_from("abc"), st.sampled_from("123"), st.sampled_from("uv"))
views = st.dictionaries(st.sampled_from("abc"), st.tuples(st.sampled_from("123"), st.sampled_from("uv"))).map(
    lambda some: [thing(name, version, uid) for name, (version, uid) in some.items()]
)


@given(views, views)
def test_the_changes_lead_from_one_listing_to_the_next(first, second) -> None:
    view, _ = object_changes.view_from_list({}, first)
    wanted, told = object_changes.view_from_list(view, second)
    assert replayed(view, told) == wanted


@given(views, st.lists(st.tuples(st.booleans(), things), max_size=8))
def test_the_changes_of_events_lead_to_the_view_that_events_do(
    first: list[PartialObjectMetadata], events: list[tuple[bool, PartialObjectMetadata]]
) -> None:
    view, _ = object_changes.view_from_list({}, first)
    batch = WatchBatch(dict(view), [], PartialObjectMetadata)
    for gone, event in events:
        line = {"type": "DELETED" if gone else "MODIFIED", "object": event}
        batch.apply_line(msgspec.json.encode(line), "")
        key = object_key(event.metadata)
        assert (key in batch.view) is not gone
    assert replayed(view, batch.changes) == batch.view


def replayed(view, told):
    """By the rules that a listener has: deleted is gone, anything else is there."""
    view = dict(view)
    for change in told:
        key = object_key(change.object.metadata)
        assert (key in view) == (change.kind is not ChangeType.ADDED)
        if change.kind is ChangeType.DELETED:
            del view[key]
        else:
            view[key] = change.object
    return view
