r"""Priors for the weights of any ``nn.Module``: regularisation whose strength learns with the model.

Weight decay is a normal prior and L1 a Laplace prior, each with its scale held fixed. Here the scale is free:
``loss = loss_fn(prediction, target) + prior() / n``, with ``n`` the number of terms the loss is a mean over.

**Why not just minimise over both.** The paper does (``method="map"``): :math:`|\theta|/b + \log b`. As weights and
scale go to zero together that falls to :math:`-\infty`, once for every weight, and a network with ReLUs can follow it
at no cost by growing the next layer. The default, ``method="evidence"``, charges :math:`\log b` only for what the
data determines:

- a scale shared by many weights pays for every *direction* that the rows tell apart, :math:`\tfrac12\sum_i
  \log(1 + e_i \sigma^2)`, and :math:`e_i`, the information in direction :math:`i`, comes from ``prior.observe``.
  This is the evidence (MacKay 1992); it is bounded below by zero;
- a scale of its own has an inverse-gamma hyperprior, which turns :math:`|\theta|` into :math:`|\theta| + \varepsilon`,
  and is weighted such that the pull at zero equals the universal threshold, the largest gradient that noise gives.
"""

from likely.priors._base import Prior
from likely.priors._kinds import LaplacePrior, NormalPrior, SpikeSlabPrior

__all__ = ["LaplacePrior", "NormalPrior", "Prior", "SpikeSlabPrior"]
