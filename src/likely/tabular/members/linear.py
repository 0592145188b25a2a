"""Linear models with a prior learned by evidence: the best choice for few rows, and for extrapolation."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from likely._typing import Array, Index
from likely.linear import DynamicLogisticRegression, DynamicRidge
from likely.tabular.members.task import StackMember, Task, View, cross_fit, loss_of, minimised

MAX_FIT_ROWS = 50_000  # largest number of rows per fit: more hardly change a linear model
RIDGE = 1.0
MOST_STEPS, FEW_STEPS = 60, 20  # of L-BFGS; fewer are enough with an approximate Hessian


@dataclass(frozen=True)
class Lines:
    """prediction = bias + x · coef."""

    coef: Array
    bias: Array
    largest: float = (
        np.inf
    )  # the largest prediction, so that a logarithm does not grow without bound far from the training rows

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        return np.asarray(view.smooth.cpu().numpy().astype(np.float64) @ self.coef + self.bias).clip(max=self.largest)


def fit_lines(task: Task) -> StackMember:
    """Fit one linear model per fold."""

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> Lines:
        train = train[:: -(-len(train) // MAX_FIT_ROWS)]
        x, y = task.table.smooth[fold].cpu().numpy()[train].astype(np.float64), task.target[train]
        weight = task.weight[train]
        if task.link == "identity":
            fits = [DynamicRidge().fit(x, column, weight) for column in y.T]
            return Lines(
                np.stack([fitted.coef_ for fitted in fits], 1), np.array([fitted.intercept_ for fitted in fits])
            )
        if task.link == "softmax":
            return _boundaries(x, y, weight)
        inputs, target, mass = (torch.as_tensor(part) for part in (x, y, weight))
        start = inputs.new_zeros(x.shape[1], y.shape[1]), base_rate(task.link, target, mass)
        coef, bias = descend(task.link, inputs, target, mass, RIDGE, start)
        return Lines(coef.numpy(), bias.numpy(), float(np.log(max(y.max(), 1.0))))

    return cross_fit(task, fit)


def _boundaries(x: Array, y: Array, weight: Array) -> Lines:
    line = Lines(np.zeros((x.shape[1], y.shape[1])), base_rate("softmax", *map(torch.as_tensor, (y, weight))).numpy())
    labels = y.argmax(1)
    if len(np.unique(labels)) < 2:
        return line
    fit = DynamicLogisticRegression().fit(x, labels, weight)
    coef, bias = lines_of_classes(fit)
    line.coef[:, fit.classes_], line.bias[fit.classes_] = coef.T, bias
    return line


def lines_of_classes(line: DynamicLogisticRegression) -> tuple[Array, Array]:
    """Return coefficients (classes, inputs) and biases (classes,), also for two classes, where the fit has one line."""
    coef, bias = np.atleast_2d(line.coef_), np.atleast_1d(line.intercept_)
    if len(line.classes_) == 2:
        return np.vstack([-coef, coef]) / 2, np.hstack([-bias, bias]) / 2
    return coef, bias


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

    def objective(flat: Tensor) -> Tensor:
        parameters = flat.to(features)
        coef, bias = coefficients(parameters), parameters[split:]
        return (loss(torch.addmm(bias, features, coef), target) * weight).sum() + 0.5 * ridge * coef.square().sum()

    start_coef = start[0] if root is None else root.T @ start[0]
    flat = torch.cat([start_coef.reshape(-1), start[1]]).double().cpu().numpy()
    max_iter = MOST_STEPS if root is None else FEW_STEPS
    optimum = torch.from_numpy(minimised(objective, flat, max_iter=max_iter)).to(features)
    return coefficients(optimum), optimum[split:]
