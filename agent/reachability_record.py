"""Makes the reachability record, which must fit into one value in etcd. Pure."""

from msgspec import structs

from leadsman.state import codec
from leadsman.state.records import Reachability


def build_reachability_record(found: Reachability) -> Reachability:
    """The record. Where very long names make it too large, silent peers are left out first.

    A silence that is not reported makes no node dead; an answer that is not reported could. The counts stay.
    """
    record = structs.replace(found, losses=dict(found.losses), silences=dict(found.silences))
    kept = sorted(record.losses, key=lambda name: name in record.silences)
    while codec.size_bytes(record) > codec.LARGEST_VALUE_BYTES:
        left_out = kept.pop()
        del record.losses[left_out]
        record.silences.pop(left_out, None)
    return record
