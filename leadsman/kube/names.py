"""Names what Leadsman reads on Kubernetes objects: one domain, every annotation key, the labels of pods and nodes.

Pods carry the delay and reward annotations, written by users; nodes carry the other two, written by the controller.
The labels that the controller writes are next to the code that does: those of Telemetry Aware Scheduling.
"""

DOMAIN = "leadsman.dev"
"""The domain of our labels and annotations."""

ZONE_LABEL = "topology.kubernetes.io/zone"
"""Kubernetes' label for a node's zone."""

DELAY_ANNOTATION = f"{DOMAIN}/delay"
"""A pod's delay bounds, one a line: `<from>: <ms> [all|nearest] [accept|upper-bound|reject]`; empty lines and `# ...`
are ignored."""

REPLICAS_ANNOTATION = f"{DOMAIN}/delay-replicas"
"""Says whether a pod's bounds to a workload are to all of its pods or to the nearest, unless their own lines say it."""

ESTIMATE_ANNOTATION = f"{DOMAIN}/delay-estimate"
"""This annotation says what a pod's bounds do with estimates, unless their own lines say it."""

BACKUP_ANNOTATION = f"{DOMAIN}/backup"
"""Says, on a pod with a delay bound, the largest failure that it is to survive: none, node, rack or zone."""

FAILOVER_ANNOTATION = f"{DOMAIN}/failover"
"""Says whether pods are failed over. `off` on a node or a pod: they are left to Kubernetes whatever happens to the
node. On a Job's pod, `on`: it is failed over."""

PLACEHOLDER_LABEL = f"{DOMAIN}/placeholder"
"""Marks a pod that only holds room on its node for backups; the value is the node's name, or its hash."""

PLACEHOLDER_NAMESPACE = "leadsman-placeholders"
"""The namespace of placeholders, which holds nothing else. Elsewhere the label means nothing."""

PLACEHOLDER_PRIORITY_CLASS = "leadsman-placeholder"
"""The PriorityClass of placeholders, in the component self-healing: below ordinary pods, and below -10, under which
cluster-autoscaler adds no nodes."""

HELD_FOR_LABEL = f"{DOMAIN}/held-for"
"""Marks a pod in the placeholders' namespace that holds room for one pod that is being moved, or that a move makes room
for; the value is that pod's UID."""

BANDWIDTH_ANNOTATION = f"{DOMAIN}/bandwidth"
"""Says, on a pod, the bandwidth that it asks of a link, as `2Gbit`."""

EGRESS_BANDWIDTH_KEY = "kubernetes.io/egress-bandwidth"
"""Kubernetes' own, a quantity in bit/s; counts where BANDWIDTH_ANNOTATION is absent."""

DEVICE_MEMORY_ANNOTATION = f"{DOMAIN}/device-memory"
"""Says, on a pod, the memory that it asks of each single device, as `5Gi`."""

ACCELERATOR_ANNOTATION = f"{DOMAIN}/accelerator"
"""`optional` on a pod says that it runs without an accelerator too."""

GAS_CARDS_KEY = "gas-container-cards"
"""GPU Aware Scheduling writes here which cards a pod's containers have: `card0,card1|card2`."""

DEVICE_LABEL_PREFIXES = ("gpu.intel.com/", "nvidia.com/gpu.")
"""Labels of a node that begin so say what its devices are."""

UNHEALTHY_DEVICES_KEY = f"{DOMAIN}/unhealthy-devices"
"""A node's label says how many of its devices are unhealthy, its annotation their UUIDs, with commas. They count only
devices that no DeviceTaintRule can taint."""

UNHEALTHY_TAINT_KEY = f"{DOMAIN}/unhealthy"
"""The key of the taint on an unhealthy device of a DRA driver; the value is the fault."""

UNHEALTHY_DEVICE_LABEL = f"{DOMAIN}/unhealthy-device"
"""A DeviceTaintRule of ours has the UUID of its device here."""

PORT_ANNOTATION = f"{DOMAIN}/reward-port"
PATH_ANNOTATION = f"{DOMAIN}/reward-path"
SERIES_ANNOTATION = f"{DOMAIN}/reward-series"
DIRECTION_ANNOTATION = f"{DOMAIN}/reward-direction"
"""Annotations of a pod say with these names where its own metric is: `agent.pods.quality_observer`."""

OWNERSHIP_ANNOTATION = f"{DOMAIN}/telemetry-labels"
"""Records which of a node's labels the controller owns: `leadsman.planning.labels.label_plan`."""

CHANGES_ANNOTATION = f"{DOMAIN}/label-changes"
"""Records when the controller changed which label of a node within the last hour:
`leadsman.planning.labels.label_plan`."""

RETRIED_AT_ANNOTATION = f"{DOMAIN}/retried-at"
"""Records on a node when the controller last made kube-scheduler retry refused pods: `controller.pods`."""

UNREACHABLE_CONDITION = "LeadsmanUnreachable"
"""The type of a condition on nodes, without a domain, as Ready has none: `controller.node_health`."""

REPORTING_CONTROLLER = f"{DOMAIN}/controller"
"""The controller's name in the Events that it writes."""

REPORTING_EXTENDER = f"{DOMAIN}/extender"
"""The extender's."""

DELAY_LABEL_PREFIX = "delay_"
"""A pod's label that begins so is a delay bound: `delay_<from>: "<ms>"`."""

POLICY_LABEL = "telemetry-policy"
"""A pod's label that names its TASPolicy."""

TYPE_LABELS = ("podtype", "app", "name")
"""The first of these labels that has a value is a pod's type for rewards."""

POD_TEMPLATE_HASH_LABEL = "pod-template-hash"
"""Says what a Deployment's ReplicaSet appends to its name and writes on its pods."""

ROLE_LABEL = "kubernetes.io/role"
"""Says, on a node, what it is for."""

READ_LABELS = frozenset({POLICY_LABEL, *TYPE_LABELS, POD_TEMPLATE_HASH_LABEL, ROLE_LABEL})
READ_LABEL_PREFIXES = (DELAY_LABEL_PREFIX, *DEVICE_LABEL_PREFIXES)
CRON_JOB_TIME = "[0-9]{8,10}"
"""Matches what a CronJob appends, after a hyphen, to the names of its Jobs: the scheduled minute since 1970."""

MIRROR_POD_KEY = "kubernetes.io/config.mirror"
"""The annotation of a pod that shows a static pod of a kubelet."""

SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
FOREIGN_ANNOTATIONS = (MIRROR_POD_KEY, SAFE_TO_EVICT_ANNOTATION, EGRESS_BANDWIDTH_KEY, GAS_CARDS_KEY)
"""Annotations of others that decide something here, by how their names begin."""

ANNOTATION_PREFIXES = (f"{DOMAIN}/", *FOREIGN_ANNOTATIONS)
"""Labels and annotations that are read by name: what is kept of an object that has too many (`bounded_metadata`)."""
