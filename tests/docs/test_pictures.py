"""Every picture of the page is drawn by one command, and shown."""

from tests.extender.page.pictures import FOLDER, PICTURES

ROOT = FOLDER.parents[1]


def test_the_pictures_are_those_that_the_command_draws_and_each_is_in_a_document() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", *FOLDER.parent.glob("*.md"))]
    assert {path.stem for path in FOLDER.glob("*.png")} == PICTURES.keys()
    assert [name for name in PICTURES if not any(f"pictures/{name}.png)" in text for text in texts)] == []
