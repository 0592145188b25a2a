"""Generalised linear models with a ridge: predictions are logarithms of means or of probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from scipy.optimize import minimize
from torch import Tensor

from likely.functional import poisson_nll, softmax_nll

MOST_STEPS, FEW_STEPS = 60, 20  # of L-BFGS; fewer are enough with an approximate Hessian


def loss_of(link: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of predictions and targets (rows, outputs) that computes each row's loss."""
    if link == "identity":
        return lambda prediction, target: (prediction - target).square().mean(1)
    if link == "log":
        return lambda prediction, target: poisson_nll(prediction, target, reduction="none", validate_args=False).mean(1)
    if link == "gamma":
        return lambda prediction, target: (target * torch.exp(-prediction) + prediction).mean(1)
    options: dict[str, Any] = {"temperature": 1.0, "reduction": "none", "validate_args": False}
    return lambda prediction, target: softmax_nll(prediction, target.argmax(1), **options)


def base_rate(link: str, target: Tensor, weight: Tensor) -> Tensor:
    """Return the best constant prediction, of shape (outputs,)."""
    mean = (target * weight[:, None]).sum(0) / weight.sum()
    return mean if link == "identity" else (mean + 0.5 / len(target)).log()


def stiffness(link: str, target: Tensor, weight: Tensor) -> float:
    """Return the mean second derivative of a row's loss in its prediction, at the base rate."""
    mean = (target * weight[:, None]).sum(0) / weight.sum()
    return max(float(mean.mean() if link == "log" else (mean * (1 - mean)).mean()), 1e-6)


def descend(
    link: str,
    features: Tensor,
    target: Tensor,
    weight: Tensor,
    ridge: float,
    start: tuple[Tensor, Tensor],
    root: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Minimise the loss plus ½ ridge |coef|² over coefficients (features, outputs) and biases (outputs,).

    ``root`` is the lower Cholesky factor of an approximate Hessian, in whose basis L-BFGS searches.
    """
    loss, shape = loss_of(link), start[0].shape
    split = shape[0] * shape[1]

    def coefficients(parameters: Tensor) -> Tensor:
        coef = parameters[:split].view(shape)
        return coef if root is None else torch.linalg.solve_triangular(root.T, coef, upper=True)

    def objective(flat: object) -> tuple[float, object]:
        parameters = torch.as_tensor(flat).to(features).requires_grad_()
        coef, bias = coefficients(parameters), parameters[split:]
        total = (loss(torch.addmm(bias, features, coef), target) * weight).sum() + 0.5 * ridge * coef.square().sum()
        (gradient,) = torch.autograd.grad(total, parameters)
        return float(total.detach()), gradient.double().cpu().numpy()

    start_coef = start[0] if root is None else root.T @ start[0]
    flat = torch.cat([start_coef.reshape(-1), start[1]]).double().cpu().numpy()
    steps = {"maxiter": MOST_STEPS if root is None else FEW_STEPS}
    optimum = torch.as_tensor(minimize(objective, flat, jac=True, method="L-BFGS-B", options=steps).x).to(features)
    return coefficients(optimum), optimum[split:]
