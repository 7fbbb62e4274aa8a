"""Listings and events applied to a view, by hand and by chance."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.kube import object_changes
from leadsman.kube.object_changes import ChangeType
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata


def thing(name, version="1", uid="u"):
    return PartialObjectMetadata(ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=version))


def kinds(some):
    return [(change.kind, change.object.metadata.name) for change in some]


def test_a_listing_tells_what_came_what_changed_and_what_went() -> None:
    before, _ = object_changes.view_from_list({}, [thing("same"), thing("moved"), thing("gone")])
    _, told = object_changes.view_from_list(before, [thing("same"), thing("moved", "2"), thing("new")])
    assert sorted(kinds(told), key=str) == sorted(
        [(ChangeType.DELETED, "gone"), (ChangeType.MODIFIED, "moved"), (ChangeType.ADDED, "new")], key=str
    )


def test_what_was_known_is_told_once() -> None:
    view, _ = object_changes.view_from_list({}, [thing("a")])
    assert object_changes.apply_put(view, thing("a")) == []


def test_a_deletion_of_what_was_not_known_is_no_change() -> None:
    assert object_changes.apply_delete({}, ("ns", "a"), thing("a")) == []


def test_a_deletion_has_the_last_state_and_the_known_one() -> None:
    view, _ = object_changes.view_from_list({}, [thing("a")])
    (change,) = object_changes.apply_delete(view, ("ns", "a"), thing("a", "9"))
    assert (change.object.metadata.resource_version, change.old.metadata.resource_version) == ("9", "1")
    assert view == {}


things = st.builds(thing, st.sampled_from("abc"), st.sampled_from("123"), st.sampled_from("uv"))
views = st.dictionaries(st.sampled_from("abc"), st.tuples(st.sampled_from("123"), st.sampled_from("uv"))).map(
    lambda some: [thing(name, version, uid) for name, (version, uid) in some.items()]
)


@given(views, views)
def test_the_changes_lead_from_one_listing_to_the_next(first, second) -> None:
    view, _ = object_changes.view_from_list({}, first)
    wanted, told = object_changes.view_from_list(view, second)
    assert replayed(view, told) == wanted


@given(views, st.lists(st.one_of(things, st.sampled_from("abc")), max_size=8))
def test_the_changes_of_events_lead_to_the_view_that_events_do(first, events) -> None:
    view, _ = object_changes.view_from_list({}, first)
    before, told = dict(view), []
    for event in events:
        told += (
            object_changes.apply_delete(view, ("ns", event), None)
            if isinstance(event, str)
            else object_changes.apply_put(view, event)
        )
    assert replayed(before, told) == view


def replayed(view, told):
    """By the rules that a listener has: deleted is gone, anything else is there."""
    view = dict(view)
    for change in told:
        key = object_changes.object_key(change.object.metadata)
        assert (key in view) == (change.kind is not ChangeType.ADDED)
        if change.kind is ChangeType.DELETED:
            del view[key]
        else:
            view[key] = change.object
    return view
