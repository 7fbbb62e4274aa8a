from agent.peering.peer_selection import LOST_PEER_SECONDS, MAX_LOST_PEERS, LostPeers
from agent.rtt.peer import Peer

ONE, TWO = Peer("one", "10.0.0.1"), Peer("two", "10.0.0.2")


def test_a_peer_that_fell_silent_before_it_left_is_probed_on_for_a_while() -> None:
    lost = LostPeers()
    assert lost.update([ONE, TWO], {"two"}, 0.0) == []
    assert lost.update([ONE], {"two"}, 10.0) == [TWO]
    assert lost.update([ONE], set(), 10.0 + LOST_PEER_SECONDS - 1) == [TWO]
    assert lost.update([ONE], {"two"}, 10.0 + LOST_PEER_SECONDS) == []


def test_a_lost_peer_that_is_selected_again_is_lost_no_longer() -> None:
    lost = LostPeers()
    lost.update([ONE, TWO], {"two"}, 0.0)
    lost.update([ONE], {"two"}, 10.0)
    assert lost.update([ONE, TWO], (), 20.0) == []
    assert lost.update([ONE], (), 30.0) == []


def test_of_many_lost_peers_the_last_ones_are_probed() -> None:
    lost, many = LostPeers(), [Peer(f"n{number}", f"10.0.1.{number}") for number in range(20)]
    lost.update(many, {peer.name for peer in many}, 0.0)
    assert lost.update([], {peer.name for peer in many}, 10.0) == many[-MAX_LOST_PEERS:]
