"""Takes out of an environment what an agent never uses: `python trim_agent.py FOLDER`.

These are rooms of ours that only extenders, controllers and operators import (a test compares), and in compiled modules
all that a process never loads: symbols, debug information, section headers.
"""

import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

ROOMS = (
    "controller",
    "extender",
    "leadsman/cli/certs",
    "leadsman/cli/configure",
    "leadsman/cli/demo",
    "leadsman/cli/evaluation",
    "leadsman/cluster",
    "leadsman/decision",
    "leadsman/planning",
    "leadsman/simulator",
    "leadsman/sources",
    "leadsman/testbed",
)

ELF_64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
"""amd64 and arm64."""


def main() -> None:
    (packages,) = Path(sys.argv[1]).glob("lib/python3*/site-packages")
    for room in ROOMS:
        shutil.rmtree(packages / room)
    for module in packages.glob("**/*.so*"):
        module.write_bytes(loaded_part(module.read_bytes()))


def loaded_part(module: bytes) -> bytes:
    """A shared object up to the end of its last segment.

    The loader reads the program header table alone; a shared object's section header table is optional, and e_shoff is
    0 where there is none (System V ABI, chapter 4). https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html
    """
    if not module.startswith(ELF_64_LITTLE_ENDIAN):
        raise ValueError(f"want a 64-bit little-endian ELF file, found {module[:6]!r}")
    trimmed = bytearray(module[: max(_segment_ends(module))])
    struct.pack_into("<Q", trimmed, 40, 0)  # e_shoff
    struct.pack_into("<HH", trimmed, 60, 0, 0)  # e_shnum, e_shstrndx
    return bytes(trimmed)


def _segment_ends(module: bytes) -> Iterator[int]:
    (table,) = struct.unpack_from("<Q", module, 32)
    entry_bytes, entries = struct.unpack_from("<HH", module, 54)
    yield table + entry_bytes * entries
    for start in range(table, table + entry_bytes * entries, entry_bytes):
        offset, stored_bytes = (struct.unpack_from("<Q", module, start + at)[0] for at in (8, 32))
        yield offset + stored_bytes


if __name__ == "__main__":
    main()
