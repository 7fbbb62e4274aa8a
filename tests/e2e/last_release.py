"""The release before this one: installed by its own manifests, upgraded and put back (docs/upgrading.md)."""

import shutil
import tarfile
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT, Images
from tests.e2e.rollout import COMPONENTS, Rollout, choose_components

ARCHIVE = ROOT / "tests/data/releases/v0.1.0.tar.xz"
IMAGE = "registry.example.com/leadsman:v0.1.0"
"""Another tag than this release's, whose version is not raised before it is made."""


def build_image(images: Images, folder: Path) -> None:
    """By its own Dockerfile. `folder` then holds its code."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    images.build_other(folder, IMAGE, "last-release")


def install(rollout: Rollout) -> None:
    rollout.install_with(lambda: _apply(rollout))


def upgrade(_: Cluster, rollout: Rollout) -> None:
    rollout.apply(COMPONENTS)
    rollout.prune(rollout.overlay)


def downgrade(_: Cluster, rollout: Rollout) -> None:
    rollout.prune(_apply(rollout))


def _apply(rollout: Rollout) -> Path:
    """The overlay that was applied."""
    folder = rollout.folder / "last-release"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    overlay = folder / "daemonset/overlay"
    choose_components(overlay, COMPONENTS)
    kustomization = overlay / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("newTag: 0.1.0", f"newTag: {IMAGE.rpartition(':')[2]}"))
    rollout.cluster.kubectl("apply", "-k", str(overlay))
    rollout.wait_for_all()
    return overlay
