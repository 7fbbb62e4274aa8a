"""One peer under probe: how it is asked and what it has answered."""

from agent.rtt.choice import Choice, Mode
from agent.rtt.names import Endpoint, literal
from agent.rtt.peer import PathClass, Peer, Place, path_class
from agent.rtt.tally import Counts
from agent.rtt.window import Window
from clusterstate.records import Method


class Target:
    """endpoint: None while the host name is not resolved."""

    def __init__(self, peer: Peer, here: Place, mode: Mode, window_seconds: float) -> None:
        self.endpoint: Endpoint | None = literal(peer.address)
        self.is_name = self.endpoint is None
        self.choice = Choice(mode)
        self.counts = Counts()
        self.lost_in_a_row = 0
        self.window = Window(window_seconds)
        self.describe(peer, here)

    def describe(self, peer: Peer, here: Place) -> None:
        """Takes a new zone or rack; what was measured stays true."""
        self.peer = peer
        self.path: PathClass = path_class(here, peer.place)

    def move(self, endpoint: Endpoint) -> None:
        """The name stands for another address: another path, of which nothing measured before holds."""
        if endpoint != self.endpoint:
            self.endpoint = endpoint
            self.window.clear()

    def heard(self, method: Method, answered: bool) -> None:
        """A window holds probes of one method only."""
        if self.choice.heard(method, answered):
            self.window.clear()
