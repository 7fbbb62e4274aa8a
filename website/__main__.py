"""Writes the reference that is made from the code into a folder: `python -m website FOLDER`.

Nothing of it is committed, so it cannot be out of date: `make reference` and `make site` make it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from website.api_page import api_page
from website.metrics_page import metrics_page
from website.reference_pages import commands_page, names_page, policy_page, records_page
from website.taspolicy_page import taspolicy_page


def reference() -> Mapping[str, str]:
    """Maps each page's path to its text. The site shows the pages below reference/."""
    return {
        "cli.md": commands_page(),
        "metrics.md": metrics_page(),
        "policy.md": policy_page(),
        "taspolicy.md": taspolicy_page(),
        "api.md": api_page(),
        "records.md": records_page(),
        "names.md": names_page(),
    }


def main(folder: Path) -> int:
    for path, text in reference().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
