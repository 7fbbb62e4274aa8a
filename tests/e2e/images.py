"""The images of the cluster, built on this machine: nothing is pulled.

Debian with Python and etcd stands under the tag that the Dockerfile begins with: the Dockerfile is not altered. It is
the StatefulSet's image too: its etcd is of the version that the tag says (tests.newer_etcd).
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests import e2e, newer_etcd

ROOT = Path(e2e.__file__).parents[2]
RELEASE = ROOT / "build/release"
SUITE = "trixie"
OURS = "leadsman", "leadsman-agent"
"""The Dockerfile's images: its last stage and its target `agent`."""

SANDBOX = "localhost/e2e/busybox:1"
"""Of pods' sandboxes and of the pods of the stream; `registry` has it under every name that a demo's pod gives."""

LAYOUT = ".oci"
"""What the names of folders end with that are an image as an OCI layout. They stand beside the archives."""

SANDBOX_LAYOUT = f"sandbox{LAYOUT}"

_SANDBOX_DOCKERFILE = """FROM scratch
COPY busybox /busybox
RUN ["/busybox", "mkdir", "-p", "/bin", "/sbin"]
RUN ["/busybox", "--install", "-s", "/bin"]
COPY wait /sbin/init
CMD ["/sbin/init"]
"""
_WAIT = "#!/bin/sh\ntrap exit TERM INT\nwhile :; do sleep 3600 & wait; done\n"

PYTHON_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
"""What the Dockerfile needs of its base."""

_PACKAGES = f"{PYTHON_PACKAGES},etcd-client"
_LINKS = "python:python3 python3:python3 pip:pip3 etcdctl:etcdctl"
_PULLING = ("bud", "from", "push")
_TRUSTED = ("/etc/ssl/certs", "/usr/local/share/ca-certificates", "/usr/share/ca-certificates")


class Images:
    """Archives in `folder`. A second run with it makes no new Debian, and builds again only what has changed."""

    def __init__(self, folder: Path, overlay: str, packages: str = _PACKAGES) -> None:
        """overlay: the rendered manifests, which say what the images are called. packages: of the base."""
        tags = sorted(set(re.findall(r"image: (\S+)", overlay)))
        self._etcd = next(tag for tag in tags if "/etcd:" in tag)
        self._project, self._agent = (next(tag for tag in tags if f"/{name}:" in tag) for name in OURS)
        self._folder, self._build, self._packages = folder, folder / "build", packages

    def build_scheduler(self, program: Path, version: str) -> None:
        """The second scheduler's: the program alone."""
        context, tag = self._build / "scheduler", f"registry.k8s.io/kube-scheduler:{version}"
        context.mkdir(exist_ok=True)
        shutil.copy(program, context)
        self._bud(context, "FROM scratch\nCOPY kube-scheduler /usr/local/bin/\n", tag)
        self._push([tag], "scheduler")

    def build(self, release: Path | None = None) -> None:
        """release: a folder that has our images; nodes pull them by their digests."""
        self._build.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._remove_ours()
        self._sandbox()
        base = self._base()
        if release:
            self._buildah("tag", base, self._etcd)
            self._push([self._etcd], "etcd")
            self._unpack(release)
        else:
            self._build_ours()
            self._push([self._project, self._etcd, _as_loaded_by_kind(self._project)], "leadsman")
            self._push([self._agent, _as_loaded_by_kind(self._agent)], "leadsman-agent")

    def _remove_ours(self) -> None:
        """Those of an earlier run: nodes import all archives that there are."""
        for name in ("etcd", *OURS):
            (self._folder / f"{name}.tar").unlink(missing_ok=True)
            shutil.rmtree(self._folder / f"{name}{LAYOUT}", ignore_errors=True)

    def _unpack(self, release: Path) -> None:
        """As a registry has them to which they were copied with their digests preserved."""
        for name, archive in archives(release).items():
            shutil.unpack_archive(archive, self._folder / f"{name}{LAYOUT}", "tar")

    @contextlib.contextmanager
    def released(self) -> Iterator[tuple[Path, Path]]:
        """Makes a release, its images twice, and mounts those of its archives: of all parts, and the agent's."""
        self._build.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._base()
        self._make("release-files")
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=RELEASE, check=True)
        digests = (RELEASE / "IMAGES").read_text()
        self._make("release-images")
        if (RELEASE / "IMAGES").read_text() != digests:
            raise RuntimeError(f"a second build gave other images:\n{digests}{(RELEASE / 'IMAGES').read_text()}")
        containers = [self._buildah("from", f"oci-archive:{each}").strip() for each in archives(RELEASE).values()]
        try:
            project, agent = (Path(self._buildah("mount", each).strip()) for each in containers)
            yield project, agent
        finally:
            self._buildah("rm", *containers)

    def _make(self, target: str) -> None:
        flags = f"BUILD_FLAGS=--signature-policy={self._build}/policy.json {' '.join(_volumes())}"
        subprocess.run(["make", "--silent", target, flags], cwd=ROOT, env=self._environ(), check=True)

    def _write_configuration(self) -> None:
        """Storage and policy of our own: the machine's are neither read nor written."""
        storage = f'[storage]\ndriver = "overlay"\nrunroot = "{self._build}/run"\ngraphroot = "{self._build}/graph"\n'
        (self._build / "storage.conf").write_text(storage)
        (self._build / "registries.conf").write_text("")
        (self._build / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')

    def _sandbox(self) -> None:
        context, busybox = self._build / "sandbox", shutil.which("busybox")
        assert busybox
        context.mkdir(exist_ok=True)
        shutil.copy(busybox, context / "busybox")
        (context / "wait").write_text(_WAIT)
        (context / "wait").chmod(0o755)
        self._bud(context, _SANDBOX_DOCKERFILE, SANDBOX)
        self._push([SANDBOX], "sandbox")
        layout = self._folder / SANDBOX_LAYOUT
        shutil.rmtree(layout, ignore_errors=True)
        self._buildah("push", SANDBOX, f"oci:{layout}:latest")

    def _base(self) -> str:
        """What it is called."""
        image = re.search(r"^ARG PYTHON_IMAGE=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        assert image, "the Dockerfile names its base in ARG PYTHON_IMAGE"
        context = self._build / "base"
        context.mkdir(exist_ok=True)
        root, part = context / "root.tar", context / "root.tar.part"
        if not root.exists():
            debian = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=tar"]
            subprocess.run([*debian, f"--include={self._packages}", SUITE, str(part), newer_etcd.mirror()], check=True)
            part.rename(root)
        if not (context / "etcd").exists():
            newer_etcd.main(context)
        links = f"RUN for p in {_LINKS}; do ln -sf /usr/bin/${{p#*:}} /usr/local/bin/${{p%:*}}; done\n"
        self._bud(context, f"FROM scratch\nADD root.tar /\nCOPY etcd /usr/local/bin/etcd\n{links}", image[1])
        return image[1]

    def _build_ours(self) -> None:
        self._from_dockerfile("-t", self._project, "-t", self._etcd)
        self._from_dockerfile("--target", "agent", "-t", self._agent)

    def _from_dockerfile(self, *words: str) -> None:
        self._buildah("bud", "--layers", "--pull-never", *_volumes(), *words, str(ROOT))

    def _bud(self, context: Path, dockerfile: str, tag: str) -> None:
        (context / "Dockerfile").write_text(dockerfile)
        self._buildah("bud", "--layers", "--pull-never", "-t", tag, str(context))

    def _push(self, tags: Sequence[str], name: str) -> Path:
        """One archive; the image's further names are in a file beside it, for the nodes."""
        archive = self._folder / f"{name}.tar"
        archive.unlink(missing_ok=True)
        self._buildah("push", tags[0], f"docker-archive:{archive}:{tags[0]}")
        archive.with_suffix(".tags").write_text("\n".join(tags) + "\n")
        return archive

    def _buildah(self, verb: str, *words: str) -> str:
        """What it printed."""
        policy = [f"--signature-policy={self._build}/policy.json"] if verb in _PULLING else []
        command = ["buildah", verb, *policy, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=self._environ(), check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
        return done.stdout

    def _environ(self) -> dict[str, str]:
        return os.environ | {
            "CONTAINERS_STORAGE_CONF": f"{self._build}/storage.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{self._build}/registries.conf",
            "BUILDAH_ISOLATION": "chroot",
        }


def archives(release: Path) -> Mapping[str, Path]:
    """Our images' archives in a release's folder, by image."""
    return {name: next(release.glob(f"{name}-[0-9]*.oci.tar")) for name in OURS}


def _as_loaded_by_kind(tag: str) -> str:
    """The name under which a node finds `name:tag`, which has no registry: docs/tutorial.md."""
    return f"docker.io/library/{tag.rpartition('/')[2]}"


def _volumes() -> list[str]:
    """The builder trusts whom this machine trusts."""
    return [f"--volume={each}:{each}:ro" for each in _TRUSTED if Path(each).is_dir()]
