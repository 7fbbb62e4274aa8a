"""`leadsman demo`: a small cluster on this machine, and one placement explained.

One etcd, five agents as five nodes, one extender, and a request that a real kube-scheduler sent: all real processes.
`leadsman demo rewards`: nodes whose pods crash, and where later pods go.
"""

import argparse
import signal
import sys

from leadsman.cli.demo import rewards_demo
from leadsman.cli.demo.delay_demo import DemoFailed, run
from leadsman.cli.options import Options, positive_int
from leadsman.testbed.etcd import EtcdFailed, EtcdMissing
from leadsman.testbed.virtual_network import NetworkFailed

EXIT_INTERRUPTED = 130


def options(add: Options) -> None:
    text = "delays (default): a bound is held; rewards: nodes that crash pods are avoided"
    add.parser.add_argument("which", help=text, nargs="?", choices=("delays", "rewards"), default="delays")
    add.parser.add_argument("--keep", action="store_true", help="leave it running, with its URLs, until Ctrl-C")
    add.flag("within-ms", "the pod's delay bound to edge-1, in ms (default 25)", "25", metavar="MS")
    add.flag("seed", "for rewards: chance among equal nodes (default 1)", 1, positive_int, metavar="N")


def main(args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_INTERRUPTED))
    try:
        if args.which == "rewards":
            rewards_demo.run(args.seed)
        else:
            run(args.within_ms, args.keep)
    except (DemoFailed, EtcdFailed, EtcdMissing, NetworkFailed) as error:
        print(f"\nleadsman demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; nothing is left behind", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0
