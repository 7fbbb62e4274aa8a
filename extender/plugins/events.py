"""Writes Events when a plugin goes off or answers again, on the extender's own pod: each replica has its plugins."""

from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.names import REPORTING_EXTENDER
from leadsman.kube.objects import ObjectReference
from leadsman.runtime.token_bucket import TokenBucket

EVENTS_PER_SECOND, EVENTS_AT_ONCE = 1 / 60, 10
"""A plugin that goes off each minute must not fill the API server, which keeps an Event for an hour."""


class PluginEvents:
    """Writes Events about plugins; `writer.run` it as one task. own_pod: what they are about."""

    def __init__(self, client: ApiClient, own_pod: ObjectReference) -> None:
        self._own_pod, self._rate = own_pod, TokenBucket(EVENTS_PER_SECOND, EVENTS_AT_ONCE)
        self.writer = EventWriter(client, TokenBucket(1.0, 10), own_pod.name, controller=REPORTING_EXTENDER)

    def plugin_changed(self, name: str, problem: str) -> None:
        """Records that a plugin went off or is back. problem: why it is off; "": it answers again."""
        if not self._rate.try_take():
            return
        if problem:
            note = f"plugin {name} is off for a minute, and decisions go on without it: {problem}"
            self.writer.record(self._own_pod, "PluginOff", note, "Score", warning=True)
        else:
            self.writer.record(self._own_pod, "PluginAnswers", f"plugin {name} answers again", "Score")
