from pathlib import Path

import agent.hardware
from agent.hardware.collectors import default_collectors

MACHINERY = {
    "__init__",
    "reading_delta",
    "collectors",
    "kernel_files",
    "metric_plugins",
    "metrics",
    "monitor",
    "psutil_source",
    "quarantine",
    "reading",
    "samples",
    "summary",
    "collector_threads",
    "rtnetlink",
    "vf_rates",
}


def test_every_source_file_is_in_the_table() -> None:
    files = {path.stem for path in Path(agent.hardware.__file__).parent.glob("*.py")}
    assert files - MACHINERY == {collect.__module__.rpartition(".")[2] for collect in default_collectors().values()}


def test_two_tables_share_no_state() -> None:
    assert default_collectors()["nvidia"] is not default_collectors()["nvidia"]
