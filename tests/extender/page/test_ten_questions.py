"""Each question of docs/page.md, answered by clicks on the page and by its command, before one extender."""

import asyncio
import json
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct

from leadsman.cli.main import main
from tests.browser import Tab
from tests.extender.page.conftest import Show
from tests.page_server import PageUrl

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

DOCUMENT = Path(__file__).parents[3] / "docs/page.md"
MOST_CLICKS = 3
POD = "kind: Pod\nmetadata: {name: tried, labels: {delay_edge-a-0000: '12'}}\n"


class Question(Struct, frozen=True):
    """A row of the table. clicks: beginnings of what is clicked. answer: in the view after them and in what the command
    prints."""

    text: str
    clicks: Sequence[str]
    command: str
    answer: str


def _questions() -> Sequence[Question]:
    section = DOCUMENT.read_text("utf-8").partition("## Ten questions")[2].partition("\n## ")[0]
    rows = section.partition("| --- |")[2].splitlines()[1:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("|")]
    return [
        Question(text, re.findall(r"\*\*(.+?)\*\*", clicks), command.strip("`"), answer.strip("`"))
        for text, clicks, command, answer in cells
    ]


QUESTIONS = _questions()
each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)


@each_question
async def test_the_page_answers_in_at_most_three_clicks(tab: Tab, shows: Show, question: Question) -> None:
    assert 1 <= len(question.clicks) <= MOST_CLICKS
    await shows("#/what-if")
    for label in question.clicks:
        await click(tab, label)
    await tab.wait_for(f"document.getElementById('view').innerText.includes({json.dumps(question.answer)})")


async def click(tab: Tab, label: str) -> None:
    """On the first link or button that is seen and has this text, else the first whose text begins with it, once it is
    there. YAML is pasted first where the view takes some."""
    await tab.evaluate(f"void document.querySelectorAll('textarea').forEach((each) => each.value = {json.dumps(POD)})")
    await tab.wait_for(
        f"""(() => {{
          const seen = [...document.querySelectorAll("a, button")].filter((each) => each.offsetParent);
          const text = (each) => each.innerText.trim();
          const target = seen.find((each) => text(each) === {json.dumps(label)})
            ?? seen.find((each) => text(each).startsWith({json.dumps(label)}));
          target?.click();
          return target;
        }})()"""
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt-get install curl")
@each_question
async def test_its_command_answers_in_one_line(
    small: PageUrl,
    question: Question,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """leadsman's own in this process, as starting Python ten times takes longer than all else."""
    (tmp_path / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAGE", small.page)
    monkeypatch.setenv("LEADSMAN_EXTENDER", small.page)
    program, *arguments = shlex.split(question.command)
    if program == "leadsman":
        status = await asyncio.to_thread(main, arguments)
    else:
        status = await (await asyncio.create_subprocess_exec("bash", "-c", question.command)).wait()
    assert status == 0
    assert question.answer in capfd.readouterr().out
