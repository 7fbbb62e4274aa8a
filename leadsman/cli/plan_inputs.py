"""Reads what every plan is made from: the flags of its sources, and the cluster and decision inputs that they name."""

import argparse
import asyncio
import contextlib
import gzip
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from extender.plugins.host import judges_of_plan, named_plugins
from extender.plugins.process import Plugin
from leadsman.cli.flags import decision_flags, process_flags
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import existing_file, label_key, member_of, namespace_name, optional_url
from leadsman.cluster.model import Cluster
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.planning.backups.backup_plan import BackupScope, BackupSettings
from leadsman.planning.situation import Judge, Scorer, Situation, with_devices_of, with_workloads_of
from leadsman.simulator.generated_cluster import MADE_UP, BadSpec, GeneratorSpec, generate, parse_spec
from leadsman.sources.cluster.cluster_follower import BadClusterFile, read_cluster
from leadsman.sources.cluster.edge_files import read_delays, read_edge_cluster
from leadsman.sources.cluster_snapshot import BadSnapshot, ClusterSnapshot, read_snapshot
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.delay.fitted_estimates import EstimatesOnDemand
from leadsman.sources.delay.matrix import BadMatrix, parse_round_trips
from leadsman.sources.live_snapshot import CannotRead, take_snapshot
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings
from leadsman.sources.wiring import SourceSettings
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.snapshot import Snapshot

POLICY_FILE_HELP = "the extender's policy file (default: that of the snapshot, or every default)"

_NOW = 0.0
"""The matrix does not age, and nothing else is read that does."""


class PlanInput(Struct, frozen=True):
    """Says what a planner works on, and where it was read.

    inputs: everything that decides besides the cluster; its `now` is the plan's.
    taken_at: Unix seconds at which the cluster was as it is here; None: unknown, as of files that do not say it.
    source: where it comes from, for people.
    missing: what could not be read → why.
    judges: filter and score nodes as the extender does, with the policy's plugins.
    """

    cluster: Cluster
    inputs: DecisionInputs
    taken_at: float | None
    source: str
    missing: Mapping[str, str] = {}
    judges: tuple[Judge, Scorer] = (filter_nodes, score_nodes)

    @property
    def situation(self) -> Situation:
        """Returns what a planner is asked about. Where nothing else says so, pods say where workloads are, and nodes
        and pods who has which devices: a cluster that was generated or read from a list has no more."""
        workloads = self.inputs.workloads.loaded
        inputs = self.inputs if workloads else with_workloads_of(self.cluster, self.inputs)
        return Situation(self.cluster, with_devices_of(self.cluster, inputs), *self.judges)


def plan_input_options(add: Options) -> None:
    """Adds the flags that name the sources of a plan. `read_plan_input` reads them."""
    add = add.without_environment()
    planned = add.group("what is planned for")
    planned.argument("snapshot", "a file that `leadsman snapshot` wrote", None, existing_file)
    planned.argument(
        "generate",
        "a cluster that does not exist, such as zones=2,racks=3,nodes=4,spare=0.3,seed=7; fields: "
        f"{', '.join(GeneratorSpec.__struct_fields__)}"
        " (docs/replay.md)",
        None,
        metavar="SPEC",
    )
    files = add.group("other files; those of kubernetes-edge-scheduler can be given with its own flags")
    for short, name, text, parse in (
        ("-d", "delay_matrix", "round trips in ms: a line for each node, whitespace between values", existing_file),
        ("-m", "metadata", 'JSON {"node": row}: the node of each row of the matrix', existing_file),
        ("-n", "nodes", 'JSON {"name", "allocatable_memory", "cloud"}: one node, a list, or a folder of files', _path),
        ("-p", "pods", "Deployments in YAML: a file or a folder", _path),
    ):
        long = [f"--{name}"] + ([f"--{name.replace('_', '-')}"] if "_" in name else [])
        files.parser.add_argument(short, *long, help=text, type=parse, metavar="PATH")
    for short, name in (("-s", "simulation"), ("-b", "both")):
        files.parser.add_argument(
            short, f"--{name}", nargs="?", const="", help="accepted for kubernetes-edge-scheduler's command lines"
        )
    files.argument(
        "cluster", "in place of --nodes and --pods: a List as `kubectl get -o json` prints it", None, existing_file
    )
    own = BackupSettings()
    planned.argument("rack-label", "the controller's: label of nodes that names their rack", own.rack_label, label_key)
    planned.argument(
        "backup-scope",
        "the controller's: the largest failure that a bounded pod survives unless it says otherwise",
        own.default_scope,
        member_of(BackupScope),
    )
    planned.argument("policy", POLICY_FILE_HELP, None, existing_file)
    live_cluster_options(add)


def planned_backups(args: argparse.Namespace) -> BackupSettings:
    """Returns how the controller keeps backups, by the flags."""
    return BackupSettings(args.backup_scope, args.rack_label)


def read_input_with_plugins(args: argparse.Namespace) -> PlanInput:
    """Reads what the flags name, with the policy's filters and scores of other packages, which run until `args.closing`
    is closed. Raises ValueError."""
    given = read_plan_input(args)
    return replace(given, judges=judges_of_policy(given.inputs, args.closing))


def judges_of_policy(inputs: DecisionInputs, closing: contextlib.ExitStack) -> tuple[Judge, Scorer]:
    """Returns the filter and the score of an extender with the plugins that the policy names, which run until `closing`
    is closed."""
    plugins = [Plugin(*each) for each in named_plugins(inputs.policy)]
    for plugin, starting in [(plugin, plugin.start(inputs)) for plugin in plugins]:
        closing.callback(plugin.stop)
        starting.result()
        if not plugin.is_active:
            print(f"plugin {plugin.name} is not asked here: {plugin.problem}", file=sys.stderr)
    return judges_of_plan(plugins)


def read_plan_input(args: argparse.Namespace) -> PlanInput:
    """Reads what the flags name. ValueError names the file, the place in it and what is allowed."""
    sources = {
        "--snapshot": args.snapshot is not None,
        "--generate": args.generate is not None,
        "--cluster": args.cluster is not None,
        "--nodes and --pods": args.nodes is not None or args.pods is not None,
        "--kubeconfig or --kube-api": names_a_cluster(args),
    }
    given = [name for name, is_given in sources.items() if is_given]
    has_delays = args.delay_matrix is not None or args.metadata is not None
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} exclude each other; leave all but one out")
    if has_delays and given in (["--snapshot"], ["--generate"]):
        raise ValueError(
            f"--delay_matrix and --metadata have no effect with {given[0]}, which has delays; leave them out"
        )
    if names_a_cluster(args) or not (given or has_delays):
        return _read_live(args)
    return _with_policy(_read_offline(args), args.policy)


def _read_offline(args: argparse.Namespace) -> PlanInput:
    if args.snapshot is not None:
        return _read_snapshot(args.snapshot)
    if args.generate is not None:
        return _generated(args.generate)
    return _read_files(args)


def _with_policy(given: PlanInput, file: Path | None) -> PlanInput:
    if file is None:
        return given
    return replace(given, inputs=replace(given.inputs, policy=PolicyFile(file).current))


def _read_live(args: argparse.Namespace) -> PlanInput:
    taken = read_cluster_now(args)
    return PlanInput(taken.cluster, _with_estimates(taken.inputs), taken.taken_at, "the live cluster", taken.missing)


def _read_snapshot(file: Path) -> PlanInput:
    try:
        read = read_snapshot(file.read_bytes())
    except (BadSnapshot, OSError) as error:
        raise ValueError(f"{file}: {error}") from error
    return PlanInput(read.cluster, _with_estimates(read.inputs), read.taken_at, str(file), read.missing)


def _with_estimates(inputs: DecisionInputs) -> DecisionInputs:
    return replace(inputs, estimates=EstimatesOnDemand(inputs))


def _generated(text: str) -> PlanInput:
    try:
        spec = parse_spec(text)
        measured_ms = None if spec.network == MADE_UP else parse_round_trips(_text_of(Path(spec.network)))
        cluster, inputs = generate(spec, measured_ms)
    except BadMatrix as error:
        raise ValueError(f"--generate: {spec.network}: {error}") from error
    except (BadSpec, OSError, UnicodeDecodeError, EOFError) as error:
        raise ValueError(f"--generate: {error}") from error
    return PlanInput(cluster, _with_estimates(inputs), None, f"generated: {text}")


def _text_of(file: Path) -> str:
    """Returns the file's text, also of one packed by gzip."""
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode()


def _read_files(args: argparse.Namespace) -> PlanInput:
    if args.delay_matrix is None or args.metadata is None:
        raise ValueError("--delay_matrix and --metadata are both needed: the delays, and the node of each row")
    if args.cluster is None and not (args.nodes and args.pods):
        raise ValueError("--nodes and --pods are both needed, or --cluster, or --snapshot")
    delays = read_delays(args.delay_matrix, args.metadata)
    inputs = DecisionInputs(Snapshot(), Policy(), _NOW, delay_views=(delays,))
    if args.cluster is None:
        return PlanInput(read_edge_cluster(args.nodes, args.pods), inputs, None, f"{args.nodes} and {args.pods}")
    try:
        return PlanInput(read_cluster(args.cluster.read_bytes()), inputs, None, str(args.cluster))
    except (BadClusterFile, OSError) as error:
        raise ValueError(f"{args.cluster}: {error}") from error


def _path(text: str) -> Path:
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text!r}: no such file or folder")
    return path


def live_cluster_options(add: Options) -> None:
    """Adds the flags of access to the live cluster; in its pods, the environment names it."""
    process_flags.operator_api_options(add)
    process_flags.etcd_options(add, default=None)
    followed = add.group("what else the live cluster's extender follows")
    followed.flag("goldpinger", "URL of Goldpinger, polled for /check_all", "", optional_url)
    followed.flag("self-healing-namespace", "namespace that the controller publishes in", "leadsman", namespace_name)
    decision_flags.telemetry_options(followed)


def names_a_cluster(args: argparse.Namespace) -> bool:
    """Tells whether the flags or the environment name an API server from outside a cluster."""
    return bool(args.kubeconfig or args.kube_api or args.context)


def read_cluster_now(args: argparse.Namespace) -> ClusterSnapshot:
    """Reads the live cluster. Raises ValueError when the flags do not fit together; raises CommandFailed when it cannot
    be read."""
    try:
        return asyncio.run(_take_snapshot(args))
    except CannotRead as error:
        raise CommandFailed(str(error)) from error


async def _take_snapshot(args: argparse.Namespace) -> ClusterSnapshot:
    settings = _live_settings(args)
    async with contextlib.AsyncExitStack() as stack:
        store = EtcdStore(process_flags.etcd_access(args)) if args.etcd else None
        if store is not None:
            stack.push_async_callback(store.close)
        return await take_snapshot(store, settings)


def _live_settings(args: argparse.Namespace) -> SourceSettings:
    if (args.delay_matrix is None) is not (args.metadata is None):
        raise ValueError("--delay_matrix and --metadata belong together; give both or neither")
    api = process_flags.operator_api_access(args)
    return SourceSettings(
        policy=args.policy,
        api=api,
        delays=DelaySettings(
            goldpinger_url=args.goldpinger, matrix=args.delay_matrix, metadata=args.metadata, estimates=False
        ),
        telemetry=decision_flags.telemetry_settings(args, api) or TelemetrySettings((AGENTS_SOURCE,), api),
        self_healing_namespace=args.self_healing_namespace,
    )
