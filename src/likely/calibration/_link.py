"""The map from an unconstrained u to the factor of a scale or an inverse temperature; at zero it is one."""

from likely._solvers.evidence import Solution
from likely.constraints import ShiftedSoftplus

LINK = ShiftedSoftplus(0.2)


class LinearInSource:
    """A calibrator whose u is linear in the features, or in the answers, of a row."""

    solution_: Solution

    @property
    def n_iter_(self) -> int:
        """Passes over the rows that the fit took."""
        return self.solution_.n_iter

    @property
    def precision_(self) -> float:
        """The strength of the ridge that was learned or given; ∞ where no row differs from the others."""
        return self.solution_.precision
