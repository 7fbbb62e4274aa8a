"""`leadsman demo`: a small cluster on this machine, told in the terminal and shown on its page.

By itself: a delay bound is held, and a link is lost. `leadsman demo rewards`: nodes whose pods crash, and where later
pods go. `leadsman demo failover`: a node is killed, and its pod comes back within its bound. etcd, agents, extender and
controller are real processes. On a terminal it stays until Ctrl-C.
"""

import argparse
import signal
import sys

from leadsman.cli.demo import delay_demo, failover_demo, rewards_demo
from leadsman.cli.demo.house import DemoFailed, PageAddress
from leadsman.cli.flags.options import Options
from leadsman.testbed.etcd import EtcdFailed, EtcdMissing
from leadsman.testbed.virtual_network import NetworkFailed

EXIT_INTERRUPTED = 130

DEMOS = {"delays": delay_demo.run, "rewards": rewards_demo.run, "failover": failover_demo.run}


def options(add: Options) -> None:
    add.parser.add_argument(
        "which",
        help="delays (default): a delay bound is held, and a link is lost; rewards: nodes that crash pods are avoided; "
        "failover: a pod survives its node",
        nargs="?",
        choices=DEMOS,
        metavar="{" + ",".join(DEMOS) + "}",
        default="delays",
    )


def main(args: argparse.Namespace) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(EXIT_INTERRUPTED))
    try:
        DEMOS[args.which](PageAddress())
    except (DemoFailed, EtcdFailed, EtcdMissing, NetworkFailed) as error:
        print(f"\nleadsman demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; nothing is left running", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0
