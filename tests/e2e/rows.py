"""The rows of the end-to-end table: what is done, and what is promised about it."""

from collections.abc import Callable

from msgspec import Struct

from tests.e2e import demos, disturbances
from tests.e2e.cluster import Cluster
from tests.e2e.rollout import Rollout

LOST_EXTENDER = 3
"""With `ignorable: true`: what kube-scheduler asked a replica whose node has just died (docs/deploying.md)."""


class Row(Struct, frozen=True):
    """Something that is done while bounded pods are sent.

    name: for `--rows`.
    may_be_misplaced: pods bound elsewhere than their bound allows, that break no promise of ours.
    """

    name: str
    title: str
    disturb: disturbances.Disturbance
    may_be_misplaced: int = 0


class Demo(Struct, frozen=True):
    """A demo of a system that Leadsman takes the place of. show: returns what was seen."""

    name: str
    title: str
    show: Callable[[Cluster, Rollout], str]


ROWS: tuple[Row | Demo, ...] = (
    Row("extender", "rolling update of the extender", disturbances.update("deployment/leadsman-extender")),
    Row("agents", "rolling update of the agents", disturbances.update("daemonset/leadsman-agent")),
    Row("controller", "rolling update of the controller", disturbances.update("deployment/leadsman-controller")),
    Row("etcd", "rolling update of etcd", disturbances.update_etcd),
    Row("drain", "drain of a node with an extender", disturbances.drain),
    Row("lose-agent", "loss of a node with only an agent", disturbances.lose("agent")),
    Row("lose-extender", "loss of an extender's node", disturbances.lose("extender"), LOST_EXTENDER),
    Row("lose-leader", "loss of the leading controller's node", disturbances.lose("controller"), LOST_EXTENDER),
    Row("lose-etcd", "loss of an etcd member's node", disturbances.lose("etcd"), LOST_EXTENDER),
    Row("api-server", "API server away for 10 s", disturbances.restart_api_server),
    Row("certificates", "renewal of the certificates", disturbances.renew_certificates),
    Row("tokens", "new key of ServiceAccount tokens", disturbances.rotate_tokens),
    Demo("kuberl", "kubeRL's demo", demos.kuberl),
    Demo("telemetry", "Telemetry Aware Scheduling's demo", demos.telemetry),
    Demo("edge", "the edge scheduler's demo", demos.edge_scheduler),
)
"""In this order, between the installation and the removal."""

REMOVAL = "uninstall"
