"""Events about plugins that go off and answer again, on the extender's own pod: each replica has its own processes."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.names import REPORTING_EXTENDER
from leadsman.kube.objects import ObjectReference
from leadsman.runtime.token_bucket import TokenBucket

PluginChanged = Callable[[str, str], None]
"""Takes a plugin's name and why it is off; "": it answers again."""

PLUGIN_EVENTS_PER_SECOND, PLUGIN_EVENTS_AT_ONCE = 1 / 600, 4
"""Of one plugin: one that goes off each minute must not fill the API server, which keeps an Event for an hour."""

WRITES_PER_SECOND, WRITES_AT_ONCE = 1.0, 10


def no_events(name: str, problem: str) -> None:
    """For a host whose plugins nobody is told of."""


class PluginEvents:
    """Writes the Events.

    client: of the API server. own_pod: that they are about. Where either is None, nothing is written.
    """

    def __init__(self, client: ApiClient | None, own_pod: ObjectReference | None) -> None:
        self._own_pod, self._rates = own_pod, dict[str, TokenBucket]()
        self.writer: EventWriter | None = None
        if client and own_pod:
            rate = TokenBucket(WRITES_PER_SECOND, WRITES_AT_ONCE)
            self.writer = EventWriter(client, rate, own_pod.name, controller=REPORTING_EXTENDER)

    def plugin_changed(self, name: str, problem: str) -> None:
        """problem: why the plugin is off; "": it answers again."""
        rate = self._rates.setdefault(name, TokenBucket(PLUGIN_EVENTS_PER_SECOND, PLUGIN_EVENTS_AT_ONCE))
        if self.writer is None or self._own_pod is None or not rate.try_take():
            return
        if problem:
            note = f"plugin {name} is off for a minute, and decisions go on without it: {problem}"
            self.writer.record(self._own_pod, "PluginOff", note, "Score", warning=True)
        else:
            self.writer.record(self._own_pod, "PluginAnswers", f"plugin {name} answers again", "Score")

    def loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """To run until cancelled."""
        return {"write Events": self.writer.run()} if self.writer else {}
