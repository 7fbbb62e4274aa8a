"""Compiles an environment, and what commands import of the standard library: `python compile_bytecode.py COMMAND...`.

The official base has no bytecode of the standard library, and a read-only root keeps none. Each start then compiles it
again: half a second of CPU, and 2 MB that an agent never gives back. The bytecode goes below sys.pycache_prefix, at the
optimisation level of the Python that runs this. It is checked neither by time nor by hash: equal in each build.
"""

import compileall
import json
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

FOREVER_VALID = py_compile.PycInvalidationMode.UNCHECKED_HASH

_PRINT_IMPORTED = """
import json, sys
from leadsman.cli.main import build_parser
for command in sys.argv[1:]:
    build_parser({}, command)
print(json.dumps(sorted(file for each in sys.modules.values() if (file := getattr(each, "__file__", None)))))
"""


def main(commands: Sequence[str]) -> int:
    packages = sysconfig.get_path("purelib")
    for left_by_pip in list(Path(packages).rglob("__pycache__")):  # It names the moment.
        shutil.rmtree(left_by_pip)
    compiled = compileall.compile_dir(packages, quiet=1, force=True, invalidation_mode=FOREVER_VALID)
    for module in standard_modules(commands):
        py_compile.compile(str(module), doraise=True, invalidation_mode=FOREVER_VALID)
    return 0 if compiled else 1


def standard_modules(commands: Sequence[str]) -> Iterator[Path]:
    """Yields the modules of the standard library that these commands import before they run. Asked of another process:
    what is alive where a module is compiled is seen in its bytecode."""
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    printed = subprocess.run([sys.executable, "-B", "-c", _PRINT_IMPORTED, *commands], capture_output=True, check=True)
    for module in map(Path, json.loads(printed.stdout)):
        if module.suffix == ".py" and module.is_relative_to(library) and not module.is_relative_to(packages):
            yield module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
