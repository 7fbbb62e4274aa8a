import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys, threading
from leadsman.runtime.malloc_limits import limit_malloc

if sys.argv[1] == "limited":
    limit_malloc()
everybody = threading.Barrier(9)

def allocate():
    kept = bytearray(100_000)
    everybody.wait()
    everybody.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
everybody.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
output = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, output)
libc.fflush(output)
everybody.wait()
"""


FREED = """
import sys
from pathlib import Path
from leadsman.runtime.malloc_limits import limit_malloc

def rss_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "limited":
    limit_malloc()
before = rss_bytes()
bytearray(30 << 20)
body = bytearray(b"x") * (20 << 20)
above = [bytearray(60_000) for _ in range(50)]
del body
print(rss_bytes() - before)
"""

glibc_only = pytest.mark.skipif(
    "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="only glibc has these limits"
)


def output(program, mode):
    return subprocess.run([sys.executable, "-c", program, mode], capture_output=True, text=True, check=True).stdout


def arenas(mode):
    return len(re.findall("<heap nr=", output(PROGRAM, mode)))


@glibc_only
def test_a_large_block_goes_back_though_later_ones_lie_above_it() -> None:
    assert int(output(FREED, "unlimited")) > 20 << 20
    assert int(output(FREED, "limited")) < 10 << 20


@glibc_only
def test_eight_threads_share_two_arenas() -> None:
    assert arenas("unlimited") > 2
    assert arenas("limited") <= 2
