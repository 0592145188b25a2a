"""Networks in two stages: the mean first, then the likelihood's parameters from held-out predictions."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from likely._numerics.random import Seeded
from likely._solvers.training import History
from likely.tabular.networks.likelihood import UNITS, NetworkLikelihood, NetworkWithLoss, Phi
from likely.tabular.networks.modules import Heads
from likely.tabular.networks.rows import TrainingRows, in_chunks, padded_folds
from likely.tabular.networks.training import (
    Training,
    TrainingRecipe,
    bounded,
    fit_likelihood,
    fit_members,
    learn,
    nll_at,
)

HEAD_UNITS = 32  # hidden units between the inputs and the likelihood's parameters
HEAD_DROPOUT = 0.2  # share of them that is dropped in training
MARGIN = 2.0  # standard errors by which held-out rows must gain before a parameter varies with the row
CLIP_LEVEL = (
    0.01  # predicted parameters are clipped to the quantiles CLIP_LEVEL and 1 − CLIP_LEVEL of the training rows
)
SECOND: dict[str, Any] = {"learning_rate": 0.003, "batch_size": 1024, "max_steps": 500, "patience": 100}


def fit_two_stage(
    rows: TrainingRows, likelihood: NetworkLikelihood, recipe: TrainingRecipe
) -> tuple[Training, Second, Tensor, History]:
    """Train the mean, then the likelihood's parameters on held-out predictions; then both again with weighted rows.

    In the second round the weight of a row is divided by its scale. The likelihood would divide it by the square of
    the scale, but then a few rows of small scale would decide. The second round is used only if it does not increase
    the plain loss of the held-out rows.
    """
    training, folds, history = fit_members(rows, likelihood.plain(), recipe)
    assert folds is not None
    prediction = training.out_of_fold(rows, folds)
    second = fit_second(rows, likelihood, prediction, recipe)
    phi = second.mean(rows.x, prediction)
    spread = next((phi[name] for name in UNITS if name in phi), None)
    if second.fitted is None or spread is None:
        return training, second, prediction, history
    weight = rows.weight / spread.reshape(len(rows.x), -1).mean(1)
    fitted = copy.deepcopy(training.fitted)
    reweighted = Training(training.likelihood, fitted, recipe.optimizer_of(fitted))
    weighted = replace(rows, weight=weight / weight.mean())
    further = reweighted.run(weighted, folds, replace(recipe, seed=recipe.seed + 2))
    second_prediction = reweighted.out_of_fold(rows, folds)
    if _plain(rows, likelihood, second_prediction) > _plain(rows, likelihood, prediction):
        return training, second, prediction, history
    history.step += further.step
    second = fit_second(rows, likelihood, second_prediction, recipe)
    return reweighted, second, second_prediction, history


def _plain(rows: TrainingRows, likelihood: NetworkLikelihood, prediction: Tensor) -> float:
    """Return the loss of the first stage, at the maximum-likelihood values of its constants."""
    constants = fit_likelihood(rows, likelihood.plain(), prediction)
    return float((nll_at(rows, likelihood, prediction, constants) * rows.weight).sum())


@dataclass(frozen=True)
class Second:
    """The likelihood's parameters, learned from out-of-fold predictions."""

    fitted: NetworkWithLoss | None  # None: the same parameters for all rows
    constants: Phi
    range: dict[str, tuple[Tensor, Tensor]]
    gain: float  # in nats per row: the part that exceeds MARGIN standard errors

    @torch.no_grad()
    def __call__(self, x: Tensor, prediction: Tensor) -> Phi:
        """Predict each parameter, in a shape that broadcasts to (members, rows, targets) or (members, rows)."""
        if self.fitted is None:
            return {name: value[None] for name, value in self.constants.items()}
        phi = self.unbounded(x, prediction)
        # Clipped to the range of the training rows: far from them a network's output is arbitrary.
        return {name: value.clamp(*self.range[name]) for name, value in phi.items()}

    @torch.no_grad()
    def unbounded(self, x: Tensor, prediction: Tensor) -> Phi:
        """Predict each parameter without clipping it."""
        assert self.fitted is not None
        features, loss_fn = self.fitted.model(torch.cat([x, prediction], -1)), self.fitted.loss_fn
        return {name: getattr(loss_fn, name)(features=features) for name in loss_fn.slots}

    def mean(self, x: Tensor, prediction: Tensor) -> Phi:
        """Predict the mean of each parameter over the members, in chunks of rows."""
        if self.fitted is None:
            return self.constants

        def means(part: slice) -> Phi:
            return {name: value.mean(0) for name, value in self(x[part], prediction[part]).items()}

        return in_chunks(len(x), means, 0)


def fit_second(rows: TrainingRows, likelihood: NetworkLikelihood, base: Tensor, recipe: TrainingRecipe) -> Second:
    """Fit constants, then networks for what varies with the row, as far as held-out rows gain with certainty."""
    constants = fit_likelihood(rows, likelihood, base)
    if likelihood.kind != "predicted":
        return Second(None, constants, {}, 0.0)
    assert recipe.cv is not None
    members = min(recipe.cv, len(rows.x))
    steps = min(recipe.max_steps, SECOND["max_steps"])
    recipe = replace(recipe, seed=recipe.seed + 1, **{**SECOND, "max_steps": steps})
    with Seeded(recipe.seed, all_draws=False):
        model = Heads(members, rows.x.shape[1] + base.shape[1], HEAD_UNITS, HEAD_DROPOUT)
        loss_fn = likelihood.loss(members, rows.shape, width=model.width, start=constants)
    fitted = NetworkWithLoss(model, loss_fn).to(rows.x)

    def nll(index: Tensor) -> Tensor:
        prediction = base[index].expand(members, -1, -1)
        return rows.nll(fitted.loss_fn, prediction, index, fitted.model(torch.cat([rows.x[index], base[index]], -1)))

    folds = padded_folds(len(rows.x), members, recipe.seed).to(rows.x.device)
    optimizer = torch.optim.Adam(fitted.parameters(), lr=recipe.learning_rate, fused=True)
    history = learn(rows, nll, fitted, folds, recipe, optimizer, MARGIN)
    if int(history.best_step) == 0:
        return Second(None, constants, {}, 0.0)
    second = Second(fitted.eval(), constants, {}, -float(history.best))
    predicted = in_chunks(len(rows.x), lambda part: second.unbounded(rows.x[part], base[part]), 1)
    for name, values in predicted.items():
        ends = np.quantile(values.flatten(0, 1).cpu().numpy(), [CLIP_LEVEL, 1 - CLIP_LEVEL], axis=0)
        low, high = (bounded(name, torch.as_tensor(end).to(values)) for end in ends)
        second.range[name] = low, high
    return second
