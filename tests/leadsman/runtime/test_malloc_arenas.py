import re
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys, threading
from leadsman.runtime.malloc_arenas import limit_arenas

if sys.argv[1] == "limited":
    limit_arenas()
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


def arenas(mode):
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True)
    return len(re.findall("<heap nr=", done.stdout))


@pytest.mark.skipif("glibc" not in __import__("os").confstr("CS_GNU_LIBC_VERSION"), reason="only glibc has arenas")
def test_eight_threads_share_two_arenas() -> None:
    assert arenas("unlimited") > 2
    assert arenas("limited") <= 2
