"""ICMP or TCP, decided for each peer by what it answers.

method   next probes                                           changes when
ICMP     ICMP; TCP too once it has been silent for long        TCP answers while ICMP is silent → TCP
TCP      TCP; ICMP too now and then                            ICMP answers                     → ICMP
"""

from enum import StrEnum

from leadsman.state.records import ProbeMethod

_SILENT_IF_NEVER_ANSWERED = 5
"""Unanswered ICMP probes before TCP is tried, when none was ever answered: blocked, most likely."""

_SILENT_IF_EVER_ANSWERED = 30
"""The same when some were: at 20 % loss, five in a row are lost every hour, thirty never."""

_TRY_TCP_EVERY = 5
_TRY_ICMP_EVERY = 30
"""In turns. Each try costs a probe that enters no window."""


class ProbeMode(StrEnum):
    """auto: ICMP, and TCP to those peers that answer only it. icmp, tcp: that alone."""

    AUTO = "auto"
    ICMP = "icmp"
    TCP = "tcp"


class MethodSelector:
    def __init__(self, mode: ProbeMode) -> None:
        self.method = ProbeMethod.TCP if mode is ProbeMode.TCP else ProbeMethod.ICMP
        self._fixed = mode is not ProbeMode.AUTO
        self._ever_answered = False
        self._silent = self._turn = 0

    def next_methods(self) -> tuple[ProbeMethod, ...]:
        """How to probe now: by the method, and by the other one when it is to be tried."""
        self._turn += 1
        return (self.method, self._other) if not self._fixed and self._try_other() else (self.method,)

    def record_result(self, method: ProbeMethod, answered: bool) -> bool:
        """A probe was answered or lost. True when that changes the method: what is in the window is of the old one."""
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
        """The peer answers TCP and not ICMP."""
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
