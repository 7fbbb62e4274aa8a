"""The snapshot of a listing that is there as a whole."""

from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import ListedSnapshot
from leadsman.state.store import Listing


def snapshot_from_listing(before: Snapshot, listing: Listing, seen_at: float | None = None) -> Snapshot:
    listed = ListedSnapshot()
    listed.take(listing.items)
    return listed.finished(before, listing.revision, listing.cluster_id, seen_at)
