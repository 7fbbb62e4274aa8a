"""What is kept of an object's labels and annotations, whatever it carries."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.kube.bounded_metadata import (
    MAX_ANNOTATION_BYTES,
    MAX_LABEL_BYTES,
    BoundedAnnotations,
    BoundedLabels,
    BoundedPairs,
)
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.kube.objects import LONGEST_NAME, Pod

MANY = {f"l{number:05}": "x" * 20 for number in range(5_000)}
KEYS = st.one_of(st.sampled_from(["app", "telemetry-policy", "delay_a"]), st.text(max_size=300))


def decoded(**metadata: Any) -> Pod:
    return decode_json(json.dumps({"metadata": {"name": "p"} | metadata}).encode(), Pod)


@pytest.mark.parametrize("wrong", [[1], {"a": 1}, "x"])
def test_labels_that_are_no_texts_make_the_object_undecodable(wrong: Any) -> None:
    with pytest.raises(MalformedResponse, match=r"\$\.metadata\.labels"):
        decoded(labels=wrong)


def test_of_15_000_owners_only_the_controller_is_kept() -> None:
    owners = [{"kind": "Other", "name": f"o{number}", "uid": "u"} for number in range(15_000)]
    meta = decoded(ownerReferences=[*owners, {"kind": "Job", "name": "j", "uid": "u", "controller": True}]).metadata
    assert [owner.name for owner in meta.owner_references] == ["j"]


def test_a_controller_with_a_name_that_no_object_can_have_is_none() -> None:
    owner = {"kind": "Job", "name": "j" * (LONGEST_NAME + 1), "uid": "u", "controller": True}
    assert decoded(ownerReferences=[owner]).metadata.controller is None


@given(pairs=st.dictionaries(KEYS, st.text(max_size=20_000)))
@example(pairs=MANY | {"app": "shop", "delay_n1": "25", "leadsman.dev/delay": "n1: 5"})
@pytest.mark.parametrize(
    ("kind", "limit"), [(BoundedLabels, MAX_LABEL_BYTES), (BoundedAnnotations, MAX_ANNOTATION_BYTES)]
)
def test_what_is_kept_is_bounded_and_what_is_read_is_kept_or_named(
    kind: type[BoundedPairs], limit: int, pairs: dict[str, str]
) -> None:
    kept = kind.of(pairs)
    assert sum(len(key.encode()) + len(value.encode()) for key, value in kept.items()) <= limit
    assert kept.items() <= pairs.items()
    assert kept.cut == len(pairs) - len(kept)
    assert bool(kept.excess) == any(kind.is_read(key) for key in pairs.keys() - kept.keys())
