"""Other delay sources and estimates as a recording has them: the rows that the recorded decisions turned on."""

from collections.abc import Set

from leadsman.decision.delay.views import EstimatedRow, SourceRow


class NotRecorded(LookupError):
    """A decision asks for a delay that the recorded one did not turn on."""


class RecordedDelayView:
    """A DelayView of which only the rows are there that decisions turned on."""

    def __init__(self, source: str, nodes: Set[str], read_at: float | None, fresh_until: float) -> None:
        self.source, self.nodes, self.read_at, self.fresh_until = source, nodes, read_at, fresh_until
        self.rows: dict[str, SourceRow] = {}

    def row(self, reference: str) -> SourceRow:
        """NotRecorded."""
        if reference not in self.rows:
            raise NotRecorded(f"the delays of {self.source} to {reference} are not in the recording")
        return self.rows[reference]


class RecordedEstimates:
    """An EstimateView of which only the rows are there that decisions turned on."""

    def __init__(self, made_at: float) -> None:
        self.made_at = made_at
        self.rows: dict[str, EstimatedRow] = {}

    def row(self, reference: str) -> EstimatedRow:
        """NotRecorded."""
        if reference not in self.rows:
            raise NotRecorded(f"the estimated delays to {reference} are not in the recording")
        return self.rows[reference]
