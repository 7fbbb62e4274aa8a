"""`leadsman demo`: a small cluster on this machine, and one placement explained.

One etcd, five agents as five nodes, one extender, and a request that a real kube-scheduler sent: all real processes.
"""

import argparse
import signal
import sys

from leadsman.demo.cluster import DemoFailed, run
from leadsman.options import Options
from testbed.etcd import EtcdFailed, EtcdMissing
from testbed.network import NetworkFailed

INTERRUPTED = 130


def options(add: Options) -> None:
    add.parser.add_argument("--keep", action="store_true", help="leave it running, with its URLs, until Ctrl-C")
    add.flag("within-ms", "the pod's delay bound to edge-1, in ms (default 25)", "25", metavar="MS")


def main(args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
    try:
        run(args.within_ms, args.keep)
    except (DemoFailed, EtcdFailed, EtcdMissing, NetworkFailed) as error:
        print(f"\nleadsman demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; nothing is left behind", file=sys.stderr)
        return INTERRUPTED
    return 0
