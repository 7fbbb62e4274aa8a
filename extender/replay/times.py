"""How moments are written."""

from datetime import UTC, datetime


def rfc3339(unix_seconds: float) -> str:
    """In UTC, with milliseconds: `2026-05-01T12:00:00.250Z`."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
