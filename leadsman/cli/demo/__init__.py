"""`leadsman demo`: a small cluster on this machine, and one placement explained.

One etcd, five agents as five nodes, one extender, and a request that a real kube-scheduler sent: all real processes.
`leadsman demo rewards`: nodes whose pods crash, and where later pods go. `leadsman demo failover`: a node is killed,
and its pod comes back within its bound.
"""

import argparse
import signal
import sys

from leadsman.cli.demo import delay_demo, failover_demo, rewards_demo
from leadsman.cli.demo.child_processes import DemoFailed
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import positive_int
from leadsman.decision.delay.bounds import BadBound, parse_bounds
from leadsman.decision.model import PodInfo
from leadsman.testbed.etcd import EtcdFailed, EtcdMissing
from leadsman.testbed.virtual_network import NetworkFailed

EXIT_INTERRUPTED = 130


def options(add: Options) -> None:
    add.parser.add_argument(
        "which",
        help="delays (default): a delay bound is held; rewards: nodes that crash pods are avoided; failover: "
        "a pod survives its node",
        nargs="?",
        choices=("delays", "rewards", "failover"),
        metavar="{delays,rewards,failover}",
        default="delays",
    )
    add.parser.add_argument("--keep", action="store_true", help="delays: keep the cluster running until Ctrl-C")
    add.argument(
        "within-ms", "delays: the pod's bound to edge-1, in ms (default {default})", "25", delay_bound, metavar="MS"
    )
    add.argument("seed", "rewards: seed of the choice among equal nodes (default {default})", 1, positive_int)


def delay_bound(text: str) -> str:
    """The value of the pod's label, as a pod may carry it."""
    try:
        parse_bounds(PodInfo("default", "demo", labels=delay_demo.bound_label(text)))
    except BadBound:
        raise argparse.ArgumentTypeError(f"{text!r}: want milliseconds such as 25 or 2.5") from None
    return text


def main(args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_INTERRUPTED))
    try:
        if args.which == "rewards":
            rewards_demo.run(args.seed)
        elif args.which == "failover":
            failover_demo.run()
        else:
            delay_demo.run(args.within_ms, args.keep)
    except (DemoFailed, EtcdFailed, EtcdMissing, NetworkFailed) as error:
        print(f"\nleadsman demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; nothing is left running", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0
