from pathlib import Path

import agent.hardware
from agent.hardware.collectors import default_collectors

MACHINERY = {
    "__init__",
    "change",
    "collectors",
    "files",
    "metrics",
    "monitor",
    "quarantine",
    "reading",
    "samples",
    "summary",
    "sweep",
}


def test_every_source_file_is_in_the_table():
    files = {path.stem for path in Path(agent.hardware.__file__).parent.glob("*.py")}
    assert files - MACHINERY == default_collectors().keys()


def test_two_tables_share_no_state():
    assert default_collectors()["nvidia"] is not default_collectors()["nvidia"]
