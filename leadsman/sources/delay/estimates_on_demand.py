"""Estimates to the delays of one moment, for plans: most need none, and a fit takes seconds for thousands of nodes."""

from functools import cached_property

from leadsman.decision.inputs import DecisionInputs, EstimatedRow
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates
from leadsman.sources.delay.goldpinger import GoldpingerView
from leadsman.sources.delay.measurements import gather_measurements


class EstimatesOnDemand:
    """An EstimateView of leadsman.decision.inputs, fitted when the first row is asked for.

    inputs: whose agents' and Goldpinger's delays it is fitted to, as the extender's first fit is.
    """

    def __init__(self, inputs: DecisionInputs) -> None:
        self._inputs, self.made_at = inputs, inputs.now

    def row(self, reference: str) -> EstimatedRow:
        """The estimates from one node to all others; EstimatedRow() where nothing is known of it."""
        return self._fitted.row(reference) if self._fitted else EstimatedRow()

    @cached_property
    def _fitted(self) -> FittedEstimates | None:
        """None: nothing fresh was measured."""
        inputs = self._inputs
        views = [view for view in inputs.delay_views if isinstance(view, GoldpingerView)]
        measured = gather_measurements(inputs.snapshot, inputs.now, inputs.policy.delay.statistic, views)
        return fit_estimates(measured, inputs.now) if len(measured.pairs.log_ms) else None
