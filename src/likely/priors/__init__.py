r"""Priors for the weights of any ``nn.Module``: regularisation whose strength learns with the model.

Weight decay is a normal prior and L1 a Laplace prior, each with a fixed scale. Here the scale is learned:
``loss = loss_fn(prediction, target) + prior() / n``, with ``n`` the number of terms the loss is a mean over.

**Why not minimise over weights and scales together.** The paper does (``method="map"``): :math:`|\theta|/b + \log b`.
As weights and scale tend to zero together, this tends to :math:`-\infty` for every weight, and a network with ReLUs can
compensate by larger weights in the next layer. The default, ``method="evidence"``, counts :math:`\log b` only for what
the data determines:

- a scale shared by many weights has the penalty :math:`\tfrac12\sum_i \log(1 + e_i \sigma^2)` over *directions* in
  weight space, where ``prior.observe`` estimates :math:`e_i`, the information of the rows about direction :math:`i`.
  This is the evidence (MacKay 1992); it is bounded below by zero; - a scale of a single weight has an inverse-gamma
  hyperprior, which turns :math:`|\theta|` into :math:`|\theta| + \varepsilon`, with a weight at which the gradient at
  zero equals the universal threshold, the largest gradient expected from noise.
"""

from likely.priors._base import Prior
from likely.priors._kinds import LaplacePrior, NormalPrior, SpikeSlabPrior

__all__ = ["LaplacePrior", "NormalPrior", "Prior", "SpikeSlabPrior"]
