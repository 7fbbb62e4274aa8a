"""`make reference` writes every page."""

from pathlib import Path

from website.__main__ import main, reference


def test_files_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    assert main(tmp_path) == 0
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == set(reference())


def test_each_command_stands_there_with_its_flags() -> None:
    sections = reference()["cli.md"].split("\n## ")
    (drain,) = (each for each in sections if each.startswith("leadsman plan drain\n"))
    assert "--per-minute N" in drain
