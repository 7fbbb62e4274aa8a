"""`leadsman explain`: ask the extender why a pod went where it went."""

import argparse
import sys
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from leadsman.options import Options

_TIMEOUT_SECONDS = 10


def options(add: Options) -> None:
    add.parser.add_argument("pod", help="NAMESPACE/NAME, or NAME in the namespace default")
    add.flag("extender", "the extender's URL (default http://127.0.0.1:9001)", "http://127.0.0.1:9001", metavar="URL")
    add.parser.add_argument("--json", action="store_true", help="every node and number, as JSON")


def main(args: argparse.Namespace) -> int:
    pod = args.pod if "/" in args.pod else f"default/{args.pod}"
    accept = "application/json" if args.json else "text/plain"
    request = Request(f"{args.extender.rstrip('/')}/explain?pod={quote(pod)}", headers={"Accept": accept})
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            print(answer.read().decode().rstrip("\n"))
            return 0
    except HTTPError as error:
        print(f"leadsman explain: {error.read().decode().strip()}", file=sys.stderr)
    except (URLError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        print(
            f"leadsman explain: no extender at {args.extender}: {reason}. Name it with --extender URL.", file=sys.stderr
        )
    return 1
