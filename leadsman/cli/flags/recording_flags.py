"""Flags of the recording that `leadsman replay` reads."""

import argparse

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_folder
from leadsman.sources.recording.segments import DEFAULT_RING_BYTES, SMALLEST_RING_BYTES

BYTES_BY_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def options(add: Options) -> None:
    add.flag(
        "record-dir",
        "folder that decided requests and their inputs are recorded in (default: nothing is recorded)",
        None,
        existing_folder,
    )
    add.flag(
        "record-bytes",
        "largest size of the recording, K, M or G; the oldest requests make room (default {default})",
        f"{DEFAULT_RING_BYTES >> 20}M",
        ring_bytes,
        metavar="BYTES",
    )


def ring_bytes(text: str) -> int:
    """As 268435456, 256M or 1G."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    size = int(number) * BYTES_BY_UNIT[unit] if number.isdecimal() and unit in BYTES_BY_UNIT else 0
    if size < SMALLEST_RING_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r}: want bytes, or a number with K, M or G; at least 1M")
    return size
