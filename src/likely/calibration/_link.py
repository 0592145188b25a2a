"""The map from an unconstrained u to the factor of a scale or an inverse temperature; at zero it is one."""

from likely.constraints import ShiftedSoftplus

LINK = ShiftedSoftplus(0.2)
