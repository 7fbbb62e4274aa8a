"""How a member of etcd that has no data begins: it joins the cluster of the others, or all form a new one. Pure.

A new cluster is formed only when each member has said of itself, in this start of this member, that it has no data. A
member that merely does not answer may have data. So nobody who lost its data votes twice in one cluster, and what a
majority has written is never started over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct, field


class Member(Struct, frozen=True):
    """A member as etcd lists it. name: "" until it has started. Source: etcdserverpb.Member."""

    id: str = field(name="ID")
    name: str = ""
    peer_urls: tuple[str, ...] = field(name="peerURLs", default=())


class Statement(Struct, frozen=True):
    """What a member without data says of itself.

    name: its name.
    heard: the other members that it has heard say the same.
    """

    name: str
    heard: tuple[str, ...] = ()


class InitialCluster(Struct, frozen=True):
    """With what a member starts. members: name → peer URL. is_new: all members start without data."""

    members: Mapping[str, str]
    is_new: bool


class Assembly:
    """Who has no data, as one member without data has heard it.

    heard: others that said so themselves. ready: others that heard it of every member, and need this one no more.
    """

    def __init__(self, name: str, others: Iterable[str]) -> None:
        self.name, self._others = name, frozenset(others)
        self.heard: set[str] = set()
        self.ready: set[str] = set()

    def statement(self) -> Statement:
        return Statement(self.name, tuple(sorted(self.heard)))

    def hear(self, statement: Statement) -> None:
        """A member without data answered."""
        if statement.name in self._others:
            self.heard.add(statement.name)
            if {self.name, *self._others} <= {statement.name, *statement.heard}:
                self.ready.add(statement.name)

    def runs(self, other: str) -> None:
        """The member's etcd answers. If it had no data in this start, it began with the new cluster."""
        if other in self.heard:
            self.ready.add(other)

    def is_complete(self) -> bool:
        """Whether nobody has data, and nobody waits to hear it of this member."""
        return self.heard == self.ready == self._others


def former_selves(members: Iterable[Member], name: str, peer_url: str) -> list[Member]:
    """The members to remove before this one is added: those of its name or at its address."""
    return [each for each in members if each.name == name or peer_url in each.peer_urls]


def joined_cluster(members: Iterable[Member], configured: Mapping[str, str]) -> InitialCluster:
    """The cluster of the members that etcd lists. configured: name → peer URL; it names those that have not started."""
    name_by_url = {url: name for name, url in configured.items()}
    named = {
        each.name or name_by_url.get(each.peer_urls[0], f"member-{each.id}"): each.peer_urls[0] for each in members
    }
    return InitialCluster(named, is_new=False)


_SECTIONS = {"": "client-transport-security", "peer-": "peer-transport-security"}
_TLS_FLAGS = ("cert-file", "key-file", "client-cert-auth", "trusted-ca-file")


class EtcdFlags(Struct, frozen=True):
    """etcd's command-line flags, as `--name=value`."""

    values: Mapping[str, str]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "EtcdFlags":
        """ValueError for another form, and without one that is needed."""
        pairs = [argument.partition("=") for argument in arguments]
        if wrong := [name for name, equals, _ in pairs if not (name.startswith("--") and equals)]:
            raise ValueError(f"{', '.join(wrong)}: flags of etcd must be --NAME=VALUE")
        values = {name.removeprefix("--"): value for name, _, value in pairs}
        if missing := [f"--{name}" for name in NEEDED_FLAGS if not values.get(name)]:
            raise ValueError(f"flags of etcd lack {', '.join(missing)}")
        flags = cls(values)
        if flags.members.get(flags.name) != values["initial-advertise-peer-urls"]:
            raise ValueError(f"--initial-cluster must have {flags.name}={values['initial-advertise-peer-urls']}")
        return flags

    @property
    def name(self) -> str:
        return self.values["name"]

    @property
    def peer_url(self) -> str:
        return self.values["initial-advertise-peer-urls"]

    @property
    def members(self) -> Mapping[str, str]:
        """Name → peer URL, of --initial-cluster."""
        return dict(each.partition("=")[::2] for each in self.values["initial-cluster"].split(","))

    def config_file(self, cluster: InitialCluster) -> str:
        """etcd's --config-file, in YAML; with one, etcd reads no flag. Source: server/embed/config.go of etcd."""
        config: dict[str, Any] = {}
        for flag, text in self.values.items():
            value = yaml.safe_load(text) if text else ""
            prefix = "peer-" if flag.startswith("peer-") else ""
            if flag.removeprefix(prefix) in _TLS_FLAGS:
                config.setdefault(_SECTIONS[prefix], {})[flag.removeprefix(prefix)] = value
            else:
                config[flag] = value
        config["initial-cluster"] = ",".join(f"{name}={url}" for name, url in cluster.members.items())
        config["initial-cluster-state"] = "new" if cluster.is_new else "existing"
        return yaml.safe_dump(config, sort_keys=False)


NEEDED_FLAGS = ("name", "data-dir", "listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster")
