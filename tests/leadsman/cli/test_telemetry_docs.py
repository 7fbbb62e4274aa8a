"""What the pages on telemetry policies show is what the code takes."""

import re
from pathlib import Path

import pytest
import yaml

from leadsman.cli.main import build_parser
from leadsman.decision.telemetry.taspolicy import STRATEGY_NAMES
from leadsman.decision.telemetry.taspolicy_document import parse_taspolicy
from leadsman.kube.names import OWNERSHIP_ANNOTATION
from leadsman.sources.telemetry.polling import parse_queries
from leadsman.sources.telemetry.telemetry_sources import SOURCE_NAMES

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {name: (DOCS / name).read_text() for name in ("telemetry-policies.md", "from-tas.md")}


def blocks(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", PAGES[page], re.DOTALL)


def test_the_policy_and_the_queries_can_be_read() -> None:
    _, policy, queries = blocks("telemetry-policies.md")
    assert parse_taspolicy(yaml.safe_load(policy)).problems == ()
    assert parse_queries(queries, "docs").node_label == "instance"


def test_every_strategy_and_source_is_named() -> None:
    for name in (*STRATEGY_NAMES, *SOURCE_NAMES):
        assert name in PAGES["telemetry-policies.md"], name


def test_the_annotation_that_says_whose_labels_are_is_named() -> None:
    assert OWNERSHIP_ANNOTATION in (DOCS / "controller.md").read_text()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_flag_is_one(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = ""
    for command in ("extender", "controller", "configure-scheduler"):
        with pytest.raises(SystemExit):
            build_parser({}, only=command).parse_args([command, "--help"])
        known += capsys.readouterr().out
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGES[page]))
    assert named
    assert {flag for flag in named if flag not in known} == set()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([\w/.-]+\.md)\)", PAGES[page]):
        assert (DOCS / target).exists(), target
