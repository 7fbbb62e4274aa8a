"""Moments as text, and back."""

from datetime import UTC, datetime


def iso(at: float) -> str:
    """As 2026-01-31T14:02:00Z. at: Unix seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of_day(at: float) -> str:
    """As "14:02 UTC"."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M UTC")


def from_iso(text: str) -> float:
    """Unix seconds. ValueError unless it is ISO 8601 with an offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("without an offset")
    return moment.timestamp()
