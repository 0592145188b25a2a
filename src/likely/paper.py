r"""The settings of "It Is Likely That Your Loss Should be a Likelihood", for standardised targets and long training.

The defaults of the losses work in any unit: scales start from the first training batch and learn in relative steps. In
the paper every parameter starts at 1, is the shifted softplus of a raw number, and learns at a tenth of the model's
rate; networks that predict parameters start from Glorot's weights.

>>> import torch, likely
>>> from likely import paper
>>> loss_fn = likely.NormalLoss(likely.Predicted(8, **paper.SCALE, **paper.NETWORK))
>>> groups = likely.param_groups(torch.nn.Linear(8, 1), loss_fn, lr=1e-3, multiplier=paper.MULTIPLIER)
>>> [group["lr"] for group in groups]
[0.001, 0.0001]
"""

from typing import Any

from likely.constraints import ShiftedSoftplus

__all__ = ["MULTIPLIER", "NETWORK", "SCALE", "TEMPERATURE"]

SCALE: dict[str, Any] = {"init": 1.0, "constraint": ShiftedSoftplus(0.01)}  # of Global, Data and Predicted
TEMPERATURE: dict[str, Any] = {"init": 1.0, "constraint": ShiftedSoftplus(0.2)}
NETWORK: dict[str, Any] = {"weights": "glorot"}  # of Predicted
MULTIPLIER = 0.1  # of likely.param_groups
