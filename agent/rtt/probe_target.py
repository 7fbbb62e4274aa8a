"""One peer under probe: how it is probed and what its probes came to."""

from agent.rtt.counters import ProbeCounts
from agent.rtt.endpoints import Endpoint, parse_literal
from agent.rtt.peer import Locality, PathClass, Peer, path_class
from agent.rtt.probe_method import MethodSelector, ProbeMode
from agent.rtt.window import ProbeWindow
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, PeerSilence, ProbeMethod


class ProbeTarget:
    """A peer's state.

    endpoint: None while the host name is not resolved.
    consecutive_losses: of probes sent since the last one that was answered.
    first_loss_seconds, last_answered_seconds: when the first of these and that one were sent, in monotonic seconds.
    """

    def __init__(self, peer: Peer, here: Locality, mode: ProbeMode, window_seconds: float) -> None:
        self.endpoint: Endpoint | None = parse_literal(peer.address)
        self.is_hostname = self.endpoint is None
        self.method_selector = MethodSelector(mode)
        self.counts = ProbeCounts()
        self.consecutive_losses = 0
        self.first_loss_seconds = self.last_answered_seconds = float("-inf")
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

    @property
    def is_silent(self) -> bool:
        return self.consecutive_losses >= LOSSES_OF_A_SILENT_PEER

    @property
    def answers(self) -> bool:
        """Whether it answered one of the last three probes. False while no probe has ended."""
        return not self.is_silent and self.last_answered_seconds > float("-inf")

    def record_answer(self, sent: float) -> None:
        """Takes an answer to a probe sent at monotonic seconds."""
        self.consecutive_losses = 0
        self.last_answered_seconds = max(self.last_answered_seconds, sent)

    def record_loss(self, sent: float) -> None:
        """Takes the loss of a probe sent at monotonic seconds. One sent before the last answered probe is no silence:
        a loss is known later than an answer."""
        if sent > self.last_answered_seconds:
            self.first_loss_seconds = self.first_loss_seconds if self.consecutive_losses else sent
            self.consecutive_losses += 1

    def silence(self, now: float) -> PeerSilence:
        """How long it has been silent at monotonic `now`."""
        last = self.window.last_reply_seconds
        age = None if last is None else round(max(0.0, now - last), 3)
        return PeerSilence(round(max(0.0, now - self.first_loss_seconds), 3), age)

    def record_result(self, method: ProbeMethod, answered: bool) -> None:
        """Takes a result of either method. A change of method clears the window, which holds one method only."""
        if self.method_selector.record_result(method, answered):
            self.window.clear()
