"""One peer under probe: how it is probed and what its probes came to."""

from agent.rtt.counters import ProbeCounts
from agent.rtt.endpoints import Endpoint, parse_literal
from agent.rtt.peer import Locality, PathClass, Peer, path_class
from agent.rtt.probe_method import MethodSelector, ProbeMode
from agent.rtt.window import ProbeWindow
from leadsman.state.records import ProbeMethod


class ProbeTarget:
    """A peer's state.

    endpoint: None while the host name is not resolved.
    """

    def __init__(self, peer: Peer, here: Locality, mode: ProbeMode, window_seconds: float) -> None:
        self.endpoint: Endpoint | None = parse_literal(peer.address)
        self.is_hostname = self.endpoint is None
        self.method_selector = MethodSelector(mode)
        self.counts = ProbeCounts()
        self.consecutive_losses = 0
        self.window = ProbeWindow(window_seconds)
        self.set_peer(peer, here)

    def set_peer(self, peer: Peer, here: Locality) -> None:
        """Takes a new zone or rack. What was measured stays valid."""
        self.peer = peer
        self.path_class: PathClass = path_class(here, peer.locality)

    def set_endpoint(self, endpoint: Endpoint) -> None:
        """Takes the address that the host name resolves to. Another address is another path: the window is cleared."""
        if endpoint != self.endpoint:
            self.endpoint = endpoint
            self.window.clear()

    def record_result(self, method: ProbeMethod, answered: bool) -> None:
        """Takes a result of either method. A change of method clears the window, which holds one method only."""
        if self.method_selector.record_result(method, answered):
            self.window.clear()
