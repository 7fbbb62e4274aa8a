"""Steps the wall clock of single processes, through `clock_shim.c`, which is compiled here."""

import mmap
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock_shim.c")


class WallClocks:
    """missing: why no clock can be stepped; "" when each can."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = folder / "clock_shim.so"
        self.missing = self._compile()

    def environ(self, process: str) -> Mapping[str, str]:
        """What the process is to be started with."""
        if self.missing:
            return {}
        file = self._file(process)
        if not file.exists():
            file.write_bytes(struct.pack("d", 0.0))
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(file)}

    def step(self, process: str, offset_seconds: float) -> None:
        """Sets how far the process's clock is ahead of the machine's."""
        with self._file(process).open("r+b") as file, mmap.mmap(file.fileno(), 8) as mapped:
            mapped[:] = struct.pack("d", offset_seconds)

    def _compile(self) -> str:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return "no C compiler: apt-get install gcc libc6-dev"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE), "-ldl", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"clock_shim.c does not compile: {done.stderr[:200]}" if done.returncode else ""

    def _file(self, process: str) -> Path:
        return self._folder / f"{process.replace(' ', '-')}.clock"
