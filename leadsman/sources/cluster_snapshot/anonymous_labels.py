"""Labels, selectors and annotations without the names in them."""

import re
from collections.abc import Iterator, Mapping, Set
from fnmatch import fnmatchcase

from leadsman.cluster.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from leadsman.decision.delay.bounds import MAX_ANNOTATION_CHARACTERS
from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX, VIOLATING
from leadsman.kube.names import (
    AUTONOMY_DURATION,
    BACKUP_ANNOTATION,
    DELAY_ANNOTATION,
    DELAY_LABEL_PREFIX,
    ESTIMATE_ANNOTATION,
    FAILOVER_ANNOTATION,
    HELD_FOR_LABEL,
    MIRROR_POD_KEY,
    PLACEHOLDER_LABEL,
    POD_TEMPLATE_HASH_LABEL,
    POLICY_LABEL,
    REPLICAS_ANNOTATION,
    ROLE_LABEL,
    TYPE_LABELS,
    WARM_IMAGES_LABEL,
)
from leadsman.planning.backups.model import BackupSettings
from leadsman.sources.cluster_snapshot.pseudonyms import Rename

_VALUE_STAYS = (ROLE_LABEL, "kubernetes.io/os", "kubernetes.io/arch", "node-role.kubernetes.io/*")
"""Labels of which the value is one of a few words too."""

WELL_KNOWN_KEYS = (
    *_VALUE_STAYS,
    *TYPE_LABELS,
    POLICY_LABEL,
    POD_TEMPLATE_HASH_LABEL,
    PLACEHOLDER_LABEL,
    HELD_FOR_LABEL,
    WARM_IMAGES_LABEL,
    BackupSettings().rack_label,
    "kubernetes.io/hostname",
    "kubernetes.io/metadata.name",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/*",
    "app.kubernetes.io/*",
    "controller-revision-hash",
    "metadata.name",
)
"""Keys of labels, taints and fields that stay; * stands for any characters."""

_KEPT_ANNOTATIONS = (
    DELAY_ANNOTATION,
    REPLICAS_ANNOTATION,
    ESTIMATE_ANNOTATION,
    BACKUP_ANNOTATION,
    FAILOVER_ANNOTATION,
    AUTONOMY_DURATION,
    MIRROR_POD_KEY,
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "kubernetes.io/egress-bandwidth",
)
"""What planners and decisions read. The others, such as the paths of reward metrics, are left out."""

_PLAIN = re.compile(
    r"none|node|rack|zone|on|off|all|nearest|accept|upper-bound|reject|true|false|[0-9.]{1,19}[a-zA-Z]{0,2}"
)
_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_BAD = "?"
"""Stands for what no parser takes, so that a pod with a bad bound stays one."""


class AnonymousLabels:
    """Renames what is in labels, selectors and annotations.

    kept_keys: keys of labels that stay beside the well-known ones.
    number_keys: keys of which some selector compares the values as numbers; those stay.
    kinds: of workloads, which stay in bounds.
    node_of_label: value of the placeholders' label → the node that it stands for.
    """

    def __init__(
        self,
        rename: Rename,
        *,
        kept_keys: Set[str],
        number_keys: Set[str],
        kinds: Set[str],
        node_of_label: Mapping[str, str],
    ) -> None:
        self._rename, self._kept_keys, self._number_keys = rename, kept_keys, number_keys
        self._kinds, self._node_of_label = kinds, node_of_label

    def key(self, key: str) -> str:
        """A label's key, or a taint's."""
        if key in self._kept_keys or any(fnmatchcase(key, known) for known in WELL_KNOWN_KEYS):
            return key
        if key.startswith(DELAY_LABEL_PREFIX):
            return DELAY_LABEL_PREFIX + self._rename(key.removeprefix(DELAY_LABEL_PREFIX))
        if key.startswith(LABEL_PREFIX):
            policy, slash, label = key.removeprefix(LABEL_PREFIX).partition("/")
            return f"{LABEL_PREFIX}{self._rename(policy)}{slash}{self._rename(label)}"
        return self._rename(key)

    def value(self, key: str, value: str) -> str:
        """A label's value, or a taint's, under its old key."""
        if key.startswith(DELAY_LABEL_PREFIX):
            return _plain(value)
        if value == VIOLATING or any(fnmatchcase(key, known) for known in _VALUE_STAYS):
            return value
        if key in self._number_keys and _NUMBER.fullmatch(value):
            return value
        if key == PLACEHOLDER_LABEL:
            return self._rename(self._node_of_label.get(value, value))
        return self._rename(value)

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """All labels of an object."""
        return {self.key(key): self.value(key, value) for key, value in labels.items()}

    def requirement(self, requirement: Requirement) -> Requirement:
        """What one label must be. Numbers that are compared stay."""
        key, values = requirement.key, requirement.values
        if requirement.operator not in (Operator.GT, Operator.LT):
            values = tuple(self.value(key, value) for value in values)
        return Requirement(self.key(key), requirement.operator, values)

    def selector(self, selector: LabelSelector | None) -> LabelSelector | None:
        """A selector; None: there is none."""
        return None if selector is None else LabelSelector(tuple(map(self.requirement, selector.requirements)))

    def terms(self, terms: tuple[NodeSelectorTerm, ...] | None) -> tuple[NodeSelectorTerm, ...] | None:
        """Terms on nodes; None: there are none."""
        if terms is None:
            return None
        return tuple(
            NodeSelectorTerm(tuple(map(self.requirement, each.labels)), tuple(map(self.requirement, each.fields)))
            for each in terms
        )

    def annotations(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Those that planners and decisions read."""
        return {key: self._annotation(key, annotations[key]) for key in _KEPT_ANNOTATIONS if key in annotations}

    def _annotation(self, key: str, value: str) -> str:
        if key == MIRROR_POD_KEY:
            return self._rename(value)
        if key != DELAY_ANNOTATION:
            return _plain(value)
        return _BAD if len(value) > MAX_ANNOTATION_CHARACTERS else "\n".join(self._bounds(value))

    def _bounds(self, text: str) -> Iterator[str]:
        """Each line without its comment."""
        for line in text.splitlines():
            reference, _, rest = line.partition("#")[0].partition(":")
            if reference.strip() or rest.strip():
                yield f"{self._reference(reference.strip())}: {' '.join(map(_plain, rest.split()))}"

    def _reference(self, reference: str) -> str:
        """`name`, `kind/name` or `namespace/kind/name`."""
        *scope, name = reference.split("/")
        kind = [each if each in self._kinds else self._rename(each) for each in scope[-1:]]
        return "/".join([*map(self._rename, scope[:-1]), *kind, self._rename(name)])


def _plain(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else _BAD
