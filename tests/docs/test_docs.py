"""What the documents name exists: links, files, modules, commands, flags, metrics. And they are in plain words."""

import importlib
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from agent.hardware.summary import CUSTOM_PREFIX
from leadsman.cli.main import COMMANDS, build_parser
from leadsman.cli.plan import PLANS
from leadsman.decision.delay.outcomes import Outcome, reason
from leadsman.plugin_loading import METHOD_OF_GROUP
from leadsman.sources.delay.matrix import BadMatrix, parse_matrix
from leadsman.state import keys
from website.metrics_page import metric_families

ROOT = Path(__file__).parents[2]
CODE = ("agent", "controller", "extender", "leadsman", "benchmarks", "fuzz")
TREES = (*CODE, "tests", "docs", "daemonset", "examples")

OTHER_PROGRAMS = {
    "kubectl": {
        "--all-namespaces",
        "--all",
        "--raw",
        "--for",
        "--selector",
        "--timeout",
        "--field-selector",
        "--previous",
        "--patch",
        "--audience",
        "--clusterrole",
        "--group",
        "--serviceaccount",
        "--image",
    },
    "kube-apiserver": {"--api-audiences"},
    "etcdctl": {"--endpoints", "--keys-only", "--prefix", "--user", "--write-out"},
    "curl": {"--cacert", "--cert", "--key"},
    "crictl": {"--name", "--quiet"},
    "docker": {"--build-arg", "--output", "--rm", "--target", "--user", "--volume"},
    "etcd": {"--bcrypt-cost"},
    "goldpinger": {"--ping-number"},
    "git": {"--format"},
    "make release": {"--notes"},
    "release 0.1.0": {
        "--account-seconds",
        "--least-fresh-ratio",
        "--leave-ratio",
        "--most-flips-per-hour",
        "--most-marked-ratio",
    },
    "helm": {"--create-namespace", "--set", "--values"},
    "kind": {"--config"},
    "sysctl": {"--system"},
    "make torture": {"--minutes", "--only"},
    "make e2e": {"--folder", "--rate", "--rounds", "--rows"},
    "the benchmarks": {
        "--beside",
        "--network",
        "--placements",
        "--pods",
        "--seconds",
        "--seed",
        "--sizes",
    },
}

PRIVATE_WORDS = re.compile(
    r"\b(anew|in vain|for want of|oftener|whoever|those before stay|for ever|thus|foretold|foretells?)\b", re.IGNORECASE
)


@cache
def documents() -> dict[str, str]:
    """Path → text of every document of ours."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "examples/*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [path for path in listed.stdout.splitlines() if not path.startswith("tests/") and (ROOT / path).is_file()]
    return {path: (ROOT / path).read_text() for path in paths}


def without_changelog() -> dict[str, str]:
    """The changelog also names what is gone."""
    return {path: text for path, text in documents().items() if path != "CHANGELOG.md"}


def test_the_documents_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md", "benchmarks/README.md"} <= set(
        documents()
    )


def test_every_link_leads_to_a_file_and_its_heading() -> None:
    broken = []
    for path, text in documents().items():
        for target, _, heading in re.findall(r"\]\(((?!https?:)[^)#\s]*)(#([^)\s]+))?\)", text):
            file = (ROOT / path).parent / target if target else ROOT / path
            if not file.exists() or (heading and heading not in anchors(file.read_text())):
                broken.append((path, target, heading))
    assert broken == []


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_file_that_is_named_exists() -> None:
    paths = re.compile(rf"(?<![\w./-])((?:{'|'.join(TREES)})/[\w./-]*\w/?)")
    missing = {
        (path, name)
        for path, text in without_changelog().items()
        for name in paths.findall(text)
        if not (ROOT / name).exists() and not PLACEHOLDERS.match(name)
    }
    assert missing == set()


PLACEHOLDERS = re.compile(
    r"leadsman/v1/|leadsman/(retried-at|telemetry-labels)|daemonset/leadsman-agent|leadsman/decision/devices|leadsman/cli$"
)
"""Keys of etcd, annotations of the last release, an object of Kubernetes, the room that is announced, and the start of
`leadsman/cli/<command>.py`."""


def test_every_module_and_name_in_code_exists() -> None:
    dotted = re.compile(rf"`(?:python -m )?((?:{'|'.join(CODE)})(?:\.\w+)+)`|python -m (benchmarks\.\w+)")
    named = {name for text in without_changelog().values() for found in dotted.findall(text) for name in found if name}
    assert len(named) > 40
    groups = METHOD_OF_GROUP.keys()
    assert sorted(name for name in named - groups if not exists(name) and name.count(".dev") == 0) == []


def exists(dotted: str) -> bool:
    """Whether it is a module, or a name in one. The benchmarks are not installed, so theirs are looked for as files."""
    if dotted.startswith("benchmarks."):
        return (ROOT / dotted.replace(".", "/")).with_suffix(".py").exists()
    module, names = dotted, list[str]()
    while module:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
            continue
        for name in names:
            found = getattr(found, name, None)  # type: ignore[assignment]
        return found is not None
    return False


def test_every_command_that_is_named_is_one() -> None:
    calls = re.compile(r"(?:^|`|\| )leadsman ([a-z][a-z-]*)\b", re.MULTILINE)
    named = {name for text in without_changelog().values() for name in calls.findall(text)}
    assert named | {"agent"} == set(COMMANDS), "and each command that an operator types is named somewhere"


def test_every_flag_that_is_named_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    flags: set[str] = set()
    for words in (*([name] for name in COMMANDS), *SUBCOMMANDS):
        with pytest.raises(SystemExit):
            build_parser({}, only=words[0]).parse_args([*words, "--help"])
        flags |= set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", capsys.readouterr().out))
    named = {
        (path, flag)
        for path, text in without_changelog().items()
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)
    }
    others = set().union(*OTHER_PROGRAMS.values())
    assert {(path, flag) for path, flag in named if flag not in flags | others} == set()
    assert others <= {flag for _, flag in named}, "flags of other programs that no document names any more"


SUBCOMMANDS = (
    ["certs", "create"],
    ["certs", "secrets"],
    ["simulate", "placement"],
    ["simulate", "rewards"],
    *(["plan", name] for name in PLANS),
    ["demo", "rewards"],
    ["demo", "failover"],
)


def test_every_metric_that_is_named_is_one_of_ours() -> None:
    named = set()
    for text in without_changelog().values():
        for start, choices, end in re.findall(r"\b(leadsman_[a-z0-9_]*)(?:\{([a-z_,]+)\})?([a-z_]*)", text):
            given = [start + one + end for one in choices.split(",")] if start.endswith("_") and choices else [start]
            named |= {name for name in given if not name.endswith("_")}
    assert len(named) > 30
    ours = {name for each in metric_families() for name in (each.name, *each.series)}
    of_plugins = {name for name in named if name.startswith(f"leadsman_{CUSTOM_PREFIX}")}
    assert named - ours - of_plugins == set()


def test_every_term_of_the_glossary_is_in_the_code_and_both_entrances_link_to_it() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([\w.]+)` \|$", documents()["docs/glossary.md"], re.MULTILINE)
    assert len(rows) > 40
    terms = [term for term, _, _ in rows]
    assert len(set(terms)) == len(terms)
    assert [where for _, _, where in rows if not exists(where)] == []
    assert all("docs/glossary.md" in documents()[path] for path in ("README.md", "CONTRIBUTING.md"))


def test_the_refusals_of_static_files_are_quoted_as_they_are() -> None:
    page = " ".join(documents()["docs/delays.md"].split())
    good, row = '{"edge-1": 0, "edge-2": 1, "c": 2, "d": 3}', "0 1 2 3\n"
    for matrix, metadata in (
        (f"# ms\n{row * 3}0 x 2 3\n", good),
        (row * 4, good.replace('"edge-2": 1', '"edge-2": 7')),
    ):
        with pytest.raises(BadMatrix) as refused:
            parse_matrix(matrix, metadata)
        assert f"`{refused.value}`" in page


def test_the_reasons_of_refused_delays_are_quoted_as_they_are() -> None:
    refusing = [outcome for outcome in Outcome if outcome.refuses]
    assert len(refusing) == 8
    page, pending = (" ".join(documents()[f"docs/{name}.md"].split()) for name in ("delays", "troubleshooting"))
    assert [each.name for each in refusing if f"`{reason(each, 'X', 5)}`" not in page] == []
    shown = (Outcome.MEASURED_OVER, Outcome.UNMEASURED, Outcome.ESTIMATE_UNSURE, Outcome.NO_REPLY, Outcome.STALE)
    assert [each.name for each in shown if f"`{reason(each, 'X', 5).replace('5 ms', 'N ms')}`" not in pending] == []


def test_the_words_are_plain_current_english() -> None:
    found = {(path, word) for path, text in documents().items() for word in PRIVATE_WORDS.findall(text)}
    assert found == set()


def test_the_table_of_etcd_names_every_record_and_prefix() -> None:
    page = documents()["docs/architecture.md"]
    kinds = [*keys.RECORD_BY_KIND, keys.REWARDS_KIND, "counted"]
    assert [kind for kind in kinds if f"`nodes/<node>/{kind}" not in page] == []
    prefixes = (keys.RING_PREFIX, keys.PROBES_PREFIX, keys.BIND_FAILURES_PREFIX, keys.GRANTS_PREFIX)
    assert [each for each in prefixes if f"| `{each.removeprefix('/leadsman/v1/')}<" not in page] == []
