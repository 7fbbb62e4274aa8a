"""Selects ICMP or TCP for each peer by what it answers. Pure.

method   next probes                                           changes when
ICMP     ICMP; TCP too once it has been silent for long        TCP answers while ICMP is silent → TCP
TCP      TCP; ICMP too now and then                            ICMP answers                     → ICMP
"""

from enum import StrEnum

from leadsman.state.records import ProbeMethod

_SILENT_IF_NEVER_ANSWERED = 5
"""Unanswered ICMP probes before TCP is tried, when none was ever answered: ICMP is most likely blocked."""

_SILENT_IF_EVER_ANSWERED = 30
"""The same when some were answered: at 20 % loss, five in a row are lost every hour, thirty never."""

_TRY_TCP_EVERY = 5
_TRY_ICMP_EVERY = 30
"""Turns between two tries. Each try costs a probe that enters no window."""


class ProbeMode(StrEnum):
    """auto: ICMP, and TCP to peers that answer only that. icmp, tcp: that method alone."""

    AUTO = "auto"
    ICMP = "icmp"
    TCP = "tcp"


class MethodSelector:
    """The method for one peer."""

    def __init__(self, mode: ProbeMode, first: ProbeMethod = ProbeMethod.ICMP) -> None:
        """first: the method to begin with, if the mode leaves a choice."""
        self.method = ProbeMethod.TCP if mode is ProbeMode.TCP else first
        self._fixed = mode is not ProbeMode.AUTO
        self._ever_answered = False
        self._silent = self._turn = 0

    def next_methods(self) -> tuple[ProbeMethod, ...]:
        """The methods to probe with now: the current one, and the other when it is due for a try."""
        self._turn += 1
        return (self.method, self._other) if not self._fixed and self._try_other() else (self.method,)

    def record_result(self, method: ProbeMethod, answered: bool) -> bool:
        """Takes a result. True when it changes the method: outcomes in the window are then of the old one."""
        if method is ProbeMethod.ICMP:
            self._silent = 0 if answered else self._silent + 1
            self._ever_answered = self._ever_answered or answered
        better = answered and method is not self.method and not self._fixed
        if not better or (method is ProbeMethod.TCP and not self._icmp_is_silent):
            return False
        self.method = method
        return True

    @property
    def icmp_blocked(self) -> bool:
        """Whether the peer answers TCP and not ICMP."""
        return self.method is ProbeMethod.TCP and not self._fixed

    @property
    def _other(self) -> ProbeMethod:
        return ProbeMethod.ICMP if self.method is ProbeMethod.TCP else ProbeMethod.TCP

    @property
    def _icmp_is_silent(self) -> bool:
        return self._silent >= (_SILENT_IF_EVER_ANSWERED if self._ever_answered else _SILENT_IF_NEVER_ANSWERED)

    def _try_other(self) -> bool:
        if self.method is ProbeMethod.TCP:
            return self._turn % _TRY_ICMP_EVERY == 0
        return self._icmp_is_silent and self._turn % _TRY_TCP_EVERY == 0
