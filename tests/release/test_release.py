"""`make release` on a copy of this checkout: versions, notes, tag; and what it refuses."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from release.__main__ import current_version, main, notes

ROOT = Path(__file__).parents[2]
NEXT = "9.8.7"


@pytest.fixture
def checkout(tmp_path: Path, author: None) -> Path:
    for name in ("Dockerfile", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("charts", "daemonset", "docs", "leadsman/runtime"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    changelog = tmp_path / "CHANGELOG.md"
    # Just after a release nothing stands under this heading.
    changelog.write_text(changelog.read_text().replace("## Unreleased\n", "## Unreleased\n\n- A visible change.\n", 1))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "-m", "all")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.com")


def test_it_sets_the_version_wherever_it_stands_and_nothing_else(checkout: Path) -> None:
    old = current_version(ROOT)
    assert main([NEXT], checkout, "2026-12-01") == 0
    lines = git(checkout, "diff", "HEAD~1", "-U0", "--", ".", ":!CHANGELOG.md").splitlines()
    removed = [line[1:] for line in lines if re.match(r"-(?!--)", line)]
    added = [line[1:] for line in lines if re.match(r"\+(?!\+\+)", line)]
    assert len(added) > 20
    spellings = re.compile(re.escape(old).replace(r"\.dev", "[.-]dev"))
    assert [spellings.sub(NEXT, line) for line in removed] == added
    for name in (
        "leadsman/runtime/version.py",
        "Dockerfile",
        "charts/leadsman/Chart.yaml",
        "daemonset/overlay/kustomization.yaml",
    ):
        text = (checkout / name).read_text()
        assert NEXT in text
        assert old not in text
    pages = {page.name: page.read_text() for page in (checkout / "docs").glob("*.md")}
    assert [name for name, text in pages.items() if re.search(rf"leadsman(-agent)?:{re.escape(old)}", text)] == []


def test_a_released_chart_names_the_images_of_the_release_by_digest(checkout: Path) -> None:
    images, chart = checkout / "IMAGES", checkout / "charts/leadsman/values.yaml"
    images.write_text("leadsman@sha256:aa\nleadsman-agent@sha256:bb\n")
    before = yaml.safe_load(chart.read_text())
    main([NEXT, "--chart", str(chart), "--images", str(images), "--registry", "registry.example.org/us"], checkout, "")
    after = yaml.safe_load(chart.read_text())
    assert after["image"] == before["image"] | {"registry": "registry.example.org/us", "digest": "sha256:aa"}
    assert after["agent"].pop("image") == before["agent"].pop("image") | {"digest": "sha256:bb"}
    assert after | {"image": None} == before | {"image": None}


def test_an_image_that_the_chart_does_not_name_is_no_release(checkout: Path) -> None:
    images, chart = checkout / "IMAGES", checkout / "charts/leadsman/values.yaml"
    images.write_text("leadsmann@sha256:aa\n")
    with pytest.raises(ValueError, match="leadsmann"):
        main([NEXT, "--chart", str(chart), "--images", str(images)], checkout, "")


def test_unreleased_lines_get_the_heading_and_are_the_notes(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = notes((checkout / "CHANGELOG.md").read_text(), "## Unreleased")
    main([NEXT], checkout, "2026-12-01")
    text = (checkout / "CHANGELOG.md").read_text()
    assert f"## {NEXT}, 2026-12-01" in text
    assert notes(text, "## Unreleased") == ""
    capsys.readouterr()
    main([NEXT, "--notes"], checkout, "")
    assert capsys.readouterr().out.strip() == before
