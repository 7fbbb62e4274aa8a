"""Loads a plugin that an installed package has: its name is unique, and its version and shape are ours."""

from typing import TYPE_CHECKING, Any

from leadsman.plugin import API_VERSION, FILTERS_GROUP, METRICS_GROUP, PASS, REFUSE, REWARDS_GROUP, SCORES_GROUP

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

METHOD_OF_GROUP = {SCORES_GROUP: "score", FILTERS_GROUP: "refuse", METRICS_GROUP: "collect", REWARDS_GROUP: "costs"}


class BadPlugin(ValueError):
    """The plugin cannot be used; the text says why, and what is allowed."""


def installed_plugins(group: str) -> "list[EntryPoint]":
    """Returns the entry points of all installed packages."""
    from importlib.metadata import entry_points  # Most agents load no plugin: see leadsman.runtime.version.

    return list(entry_points(group=group))


def load_plugin(group: str, name: str) -> Any:
    """Makes the plugin of this name. BadPlugin; and whatever its code raises."""
    points = [point for point in installed_plugins(group) if point.name == name]
    if len(points) != 1:
        raise BadPlugin(f"{len(points)} installed packages have {name!r} in the group {group}; exactly one must")
    made = points[0].load()
    plugin = made() if isinstance(made, type) else made
    version = getattr(plugin, "api_version", None)
    if version != API_VERSION:
        raise BadPlugin(f"api_version is {version!r}; must be {API_VERSION}")
    if not callable(getattr(plugin, METHOD_OF_GROUP[group], None)):
        raise BadPlugin(f"it has no method {METHOD_OF_GROUP[group]!r}, which plugins of {group} must have")
    if group == FILTERS_GROUP and getattr(plugin, "on_failure", None) not in (PASS, REFUSE):
        raise BadPlugin(f"on_failure is {getattr(plugin, 'on_failure', None)!r}; must be {PASS!r} or {REFUSE!r}")
    return plugin
