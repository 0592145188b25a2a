"""Training of networks: each without one fold, then the likelihood's parameters from the held-out predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from likely._random import Seeded
from likely._solvers.training import Checkpoint, History, Progress, fit_constants, train
from likely.losses import LikelihoodLoss
from likely.optim import param_groups
from likely.tabular._likelihoods import UNITS, Fitted, Likelihood
from likely.tabular._lines import start_at_lines
from likely.tabular._members import MLP, Copies, Heads, tensors_of
from likely.tabular._processes import Processes
from likely.tabular._rows import CHUNK, JUDGED, Batches, Rows, deal, in_chunks

HEADS, DROPPED = 32, 0.2  # hidden units between the inputs and the likelihood's parameters, and their dropout
MARGIN = 2.0  # standard errors by which held-out rows must gain before a parameter varies with the row
OFFSET = 0.2  # offset of a scale or temperature, relative to the value for all rows
EDGE = 0.01  # predicted parameters are clipped to the quantiles EDGE and 1 − EDGE of the training rows
LOW = 0.01  # offset (the paper's) of a scale learned together with the mean, relative to the linear model's residuals
SECOND: dict[str, Any] = {"learning_rate": 0.003, "batch_size": 1024, "max_steps": 500, "patience": 100}
MULTIPLIER = 1.0  # of the likelihood's learning rate; the paper has 0.1, at learning rates ten times lower
TINY = 1e-12
STAGES = ("members", "second", "members-again", "second-again")
FLOOR = 1e-6  # smallest scale, in spreads of the target: below it the fit is perfect


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run."""

    make: Callable[[], nn.Module] | None
    hidden: Sequence[int]
    dropout: float
    optimizer: Callable[..., torch.optim.Optimizer]
    learning_rate: float
    weight_decay: float
    batch_size: int | None
    max_steps: int
    patience: int
    cv: int | None
    seed: int
    callbacks: Iterable[Callable[[Progress], Any]] = ()
    checkpoint: str | None = None
    fingerprint: Mapping[str, Any] | None = None

    def saved(self, stage: str) -> Checkpoint | None:
        """Return the checkpoint of a stage."""
        if self.checkpoint is None:
            return None
        return Checkpoint(f"{self.checkpoint}.{stage}", {**(self.fingerprint or {}), "stage": stage})

    def optimizer_of(self, model: nn.Module, loss_fn: LikelihoodLoss) -> torch.optim.Optimizer:
        """Return a new optimizer of the model and the likelihood's parameters."""
        rate, decay = self.learning_rate, self.weight_decay
        return self.optimizer(param_groups(model, loss_fn, rate, weight_decay=decay, multiplier=MULTIPLIER))

    def delete_checkpoints(self) -> None:
        """Delete the files of a finished run."""
        for stage in STAGES if self.checkpoint is not None else ():
            Path(f"{self.checkpoint}.{stage}").unlink(missing_ok=True)


@dataclass
class Training:
    """Members, their loss and their optimizer."""

    likelihood: Likelihood
    fitted: Fitted
    plain: LikelihoodLoss | None  # loss of the mean, where learning the scale must not change the mean
    optimizer: torch.optim.Optimizer

    def run(self, rows: Rows, folds: Tensor | None, recipe: Recipe, stage: str = "members") -> History:
        """Train each member without its fold, or all members on all rows where ``folds`` is None."""
        history = _learn(rows, partial(self.nll, rows), self.fitted, folds, recipe, self.optimizer, stage)
        self.fitted.eval()
        return history

    def out_of_fold(self, rows: Rows, folds: Tensor) -> Tensor:
        """Predict each row by the member that was trained without it."""
        return predict_out_of_fold(folds, len(rows.x), lambda index: self.fitted.model(rows.x[index])[0])

    def out_of_fold_phi(self, rows: Rows, folds: Tensor) -> dict[str, Tensor]:
        """Predict the likelihood parameters of each row by that member."""
        model, loss_fn = self.fitted.model, self.fitted.loss_fn

        def phi(name: str, index: Tensor) -> Tensor:
            value: Tensor = getattr(loss_fn, name)(features=model(rows.x[index])[1])
            return self.likelihood.expanded(name, value, (*index.shape, *rows.shape))

        return {name: predict_out_of_fold(folds, len(rows.x), partial(phi, name)) for name in loss_fn.slots}

    def nll(self, rows: Rows, index: Tensor) -> Tensor:
        """Compute the NLL, of shape (members, rows); in training, the objective to minimise."""
        prediction, features = self.fitted.model(rows.x[index])
        if self.plain is None or not self.fitted.training:
            return rows.nll(self.fitted.loss_fn, prediction, index, features)
        separate = rows.nll(self.fitted.loss_fn, prediction.detach(), index, features)
        return rows.nll(self.plain, prediction, index, None) + separate


def start_members(
    rows: Rows, likelihood: Likelihood, objective: str, recipe: Recipe, folds: Tensor | None = None
) -> Training:
    """Return members before their first step, one per fold."""
    members = 1 if folds is None else len(folds)
    with Seeded(recipe.seed, all_draws=recipe.make is not None):
        if recipe.make is None:
            model: nn.Module = MLP(members, rows.x.shape[1], rows.outputs, recipe.hidden, recipe.dropout)
        else:
            model = Copies(recipe.make, members)
        with torch.no_grad():
            prediction, features = model.to(rows.x.device).eval()(rows.x[:2])
    if prediction.shape[-1] != rows.outputs:
        raise ValueError(f"the model returns {prediction.shape[-1]} numbers per row, the targets need {rows.outputs}")
    start = None
    if isinstance(model, MLP) and folds is not None:
        start_at_lines(model, rows, folds, likelihood.record)
        if likelihood.having("global") or likelihood.having("predicted"):
            linear = predict_out_of_fold(folds, len(rows.x), lambda index: model(rows.x[index])[0])
            start = fit_likelihood(rows, likelihood, linear)
    options: dict[str, Any] = {"beta": 0.5} if objective == "beta" else {}
    faithful = objective == "faithful"
    options |= {"width": features.shape[-1], "rows": len(rows.x), "isolated": faithful, "start": start}
    if rows.shape:
        options["relative"] = LOW
    loss_fn = likelihood.loss(members, rows.shape, **options).to(rows.x.device)
    plain = likelihood.plain().loss(members, rows.shape).to(rows.x.device) if faithful else None
    return Training(likelihood, Fitted(model, loss_fn), plain, recipe.optimizer_of(model, loss_fn))


def fit_members(
    rows: Rows, likelihood: Likelihood, objective: str, recipe: Recipe
) -> tuple[Training, Tensor | None, History]:
    """Train one network per fold without that fold; also return the row numbers of each fold."""
    n = len(rows.x)
    folds = None if recipe.cv is None else deal(n, min(recipe.cv, n), recipe.seed).to(rows.x.device)
    training = start_members(rows, likelihood, objective, recipe, folds)
    return training, folds, training.run(rows, folds, recipe)


def _learn(
    rows: Rows,
    nll: Callable[[Tensor], Tensor],
    fitted: Fitted,
    folds: Tensor | None,
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    stage: str,
    margin: float | None = None,
) -> History:
    """Train members without their folds on ``nll(index)`` of shape (members, rows).

    Each member ends in its state of the lowest loss on its fold. With a ``margin`` all end in the state where the gain
    of all folds over the start, less ``margin`` standard errors of it, is largest.
    """
    members, device = 1 if folds is None else len(folds), rows.x.device
    batches = Batches(len(rows.x), recipe.batch_size, recipe.seed)
    member = torch.arange(members, device=device)[:, None]
    excluded = torch.full((len(rows.x),), -1, device=device)  # the member that must not learn from a row
    if folds is not None:
        excluded[folds] = member.expand_as(folds)
    held_out_rows = torch.arange(0, device=device)[None] if folds is None else folds[:, : -(-JUDGED // members)]
    held_out_weight = rows.weight[held_out_rows]
    start: list[Tensor] = []
    processes = Processes.current()
    share = processes.share

    def loss(step: int) -> Tensor:
        if not fitted.training:
            fitted.train()
        index = batches(step).to(device)
        weight = rows.weight[index] * (excluded[index] != member)
        losses = nll(index[share]) * weight[:, share]
        return (losses.sum(1) / weight.sum(1).clamp(min=TINY)).sum()

    def judge() -> Tensor:
        processes.equalize(fitted.buffers())
        return processes.from_first(judge_here())

    def judge_here() -> Tensor:
        fitted.eval()
        held_out = (nll(held_out_rows) * held_out_weight).double()
        if margin is None:
            return held_out.sum(1) / held_out_weight.sum(1).clamp(min=TINY)
        if not start:
            start.append(held_out)
        gain = (start[0] - held_out).flatten()
        loss_bound: Tensor = margin * gain.std(correction=0) / len(gain) ** 0.5 - gain.mean()
        return loss_bound[None]

    tensors = tensors_of(fitted, members)
    interval = max(20, 2 * held_out_rows.shape[1] // batches.size)
    foreign = isinstance(fitted.model, Copies)  # a user's module may draw random numbers, in each process its own
    with processes.adding_up(fitted, optimizer, batches.size):
        return train(
            loss,
            fitted,
            optimizer,
            max_steps=recipe.max_steps,
            judge=None if folds is None else judge,
            members=tensors if margin is None else [[tensor for group in tensors for tensor in group]],
            every=interval,
            patience=max(recipe.patience, 5 * interval),
            seed=recipe.seed + (processes.rank if foreign else 0),
            callbacks=processes.agreeing(recipe.callbacks, device),
            checkpoint=recipe.saved(stage),
        )


def fit_two_stage(rows: Rows, likelihood: Likelihood, recipe: Recipe) -> tuple[Training, Second, Tensor, History]:
    """Train the mean, then the likelihood's parameters on held-out predictions; then both again with weighted rows.

    In the second round the weight of a row is divided by its scale. The likelihood would divide it by the square of
    the scale, but then a few rows of small scale would decide. The second round is used only if it does not increase
    the plain loss of the held-out rows.
    """
    training, folds, history = fit_members(rows, likelihood.plain(), "two_stage", recipe)
    assert folds is not None
    prediction = training.out_of_fold(rows, folds)
    second = fit_second(rows, likelihood, prediction, recipe, "second")
    phi = second.mean(rows.x, prediction)
    spread = next((phi[name] for name in UNITS if name in phi), None)
    if second.fitted is None or spread is None:
        return training, second, prediction, history
    weight = rows.weight / spread.reshape(len(rows.x), -1).mean(1)
    fitted = copy.deepcopy(training.fitted)
    reweighted = Training(training.likelihood, fitted, None, recipe.optimizer_of(fitted.model, fitted.loss_fn))
    weighted = replace(rows, weight=weight / weight.mean())
    further = reweighted.run(weighted, folds, replace(recipe, seed=recipe.seed + 2), "members-again")
    second_prediction = reweighted.out_of_fold(rows, folds)
    worse = _plain(rows, likelihood, second_prediction) > _plain(rows, likelihood, prediction)
    if Processes.current().value_of_first(worse, rows.x.device):
        return training, second, prediction, history
    history.step += further.step
    second = fit_second(rows, likelihood, second_prediction, recipe, "second-again")
    return reweighted, second, second_prediction, history


def _plain(rows: Rows, likelihood: Likelihood, prediction: Tensor) -> float:
    """Return the loss of the first stage, at the maximum-likelihood values of its constants."""
    constants = fit_likelihood(rows, likelihood.plain(), prediction)
    return float((nll_at(rows, likelihood, prediction, constants) * rows.weight).sum())


@torch.no_grad()
def nll_at(rows: Rows, likelihood: Likelihood, prediction: Tensor, phi: Mapping[str, Tensor]) -> Tensor:
    """Compute each row's NLL from predictions (rows, outputs) and the likelihood parameters of each."""
    shape = (1, *rows.y.shape)
    parameters = {name: likelihood.expanded(name, value, shape) for name, value in phi.items()}
    loss_fn = likelihood.with_parameters(**parameters)
    return rows.nll(loss_fn, prediction[None], torch.arange(len(rows.x), device=rows.x.device), None)[0]


@torch.no_grad()
def predict_out_of_fold(folds: Tensor, n: int, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Evaluate ``compute(index)``, of shape (members, rows, …), for each row by the member trained without it."""
    values = in_chunks(folds.shape[1], lambda part: {"": compute(folds[:, part])}, 1)[""]
    result = values.new_empty(n, *values.shape[2:])
    result[folds.flatten()] = values.flatten(0, 1)
    return result


@dataclass(frozen=True)
class Second:
    """The likelihood's parameters, learned from out-of-fold predictions."""

    fitted: Fitted | None  # None: the same parameters for all rows
    constants: dict[str, Tensor]
    range: dict[str, tuple[Tensor, Tensor]]
    gain: float  # in nats per row: the part that exceeds MARGIN standard errors

    @torch.no_grad()
    def __call__(self, x: Tensor, prediction: Tensor) -> dict[str, Tensor]:
        """Predict each parameter, in a shape that broadcasts to (members, rows, targets) or (members, rows)."""
        if self.fitted is None:
            return {name: value[None] for name, value in self.constants.items()}
        phi = self.unbounded(x, prediction)
        # Clipped to the range of the training rows: far from them a network's output is arbitrary.
        return {name: value.clamp(*self.range[name]) for name, value in phi.items()}

    @torch.no_grad()
    def unbounded(self, x: Tensor, prediction: Tensor) -> dict[str, Tensor]:
        """Predict each parameter without clipping it."""
        assert self.fitted is not None
        features, loss_fn = self.fitted.model(torch.cat([x, prediction], -1)), self.fitted.loss_fn
        return {name: getattr(loss_fn, name)(features=features) for name in loss_fn.slots}

    def mean(self, x: Tensor, prediction: Tensor) -> dict[str, Tensor]:
        """Predict the mean of each parameter over the members, in chunks of rows."""
        if self.fitted is None:
            return self.constants

        def means(part: slice) -> dict[str, Tensor]:
            return {name: value.mean(0) for name, value in self(x[part], prediction[part]).items()}

        return in_chunks(len(x), means, 0)


def fit_second(rows: Rows, likelihood: Likelihood, base: Tensor, recipe: Recipe, stage: str) -> Second:
    """Fit constants, then networks for what varies with the row, as far as held-out rows gain with certainty."""
    constants = fit_likelihood(rows, likelihood, base)
    if not likelihood.having("predicted"):
        return Second(None, constants, {}, 0.0)
    assert recipe.cv is not None
    members = min(recipe.cv, len(rows.x))
    steps = min(recipe.max_steps, SECOND["max_steps"])
    recipe = replace(recipe, seed=recipe.seed + 1, **{**SECOND, "max_steps": steps})
    with Seeded(recipe.seed, all_draws=False):
        model = Heads(members, rows.x.shape[1] + base.shape[1], HEADS, DROPPED)
        loss_fn = likelihood.undata().loss(members, rows.shape, width=model.width, start=constants, relative=OFFSET)
    fitted = Fitted(model, loss_fn).to(rows.x)

    def nll(index: Tensor) -> Tensor:
        prediction = base[index].expand(members, -1, -1)
        return rows.nll(fitted.loss_fn, prediction, index, fitted.model(torch.cat([rows.x[index], base[index]], -1)))

    folds = deal(len(rows.x), members, recipe.seed).to(rows.x.device)
    optimizer = torch.optim.Adam(fitted.parameters(), lr=recipe.learning_rate, fused=True)
    history = _learn(rows, nll, fitted, folds, recipe, optimizer, stage, MARGIN)
    if int(history.best_step) == 0:
        return Second(None, constants, {}, 0.0)
    second = Second(fitted.eval(), constants, {}, -float(history.best))
    predicted = in_chunks(len(rows.x), lambda part: second.unbounded(rows.x[part], base[part]), 1)
    for name, values in predicted.items():
        ends = np.quantile(values.flatten(0, 1).cpu().numpy(), [EDGE, 1 - EDGE], axis=0)
        second.range[name] = (torch.as_tensor(ends[0]).to(values), torch.as_tensor(ends[1]).to(values))
    return second


def fit_likelihood(rows: Rows, likelihood: Likelihood, prediction: Tensor) -> dict[str, Tensor]:
    """Fit one value of each parameter for all rows, by maximum likelihood at these predictions."""
    start = _rough(rows, prediction) if likelihood.record.start is None else None
    loss_fn = likelihood.constant().loss(1, rows.shape, start=start, relative=0.0).to(rows.x.device)
    total = rows.weight.double().sum()
    double_rows = replace(rows, y=rows.y.double()) if rows.shape else rows

    def chunk_loss(index: Tensor) -> Tensor:
        nll = double_rows.nll(loss_fn, prediction[None, index].double(), index, None)
        return (nll * rows.weight[index] / total).sum()

    chunks = torch.arange(len(rows.x), device=rows.x.device).split(8 * CHUNK)
    fit_constants(loss_fn, *(partial(chunk_loss, index) for index in chunks))
    with torch.no_grad():
        constants = {
            name: likelihood.expanded(name, getattr(loss_fn, name)().float(), (1, 1, *rows.shape))[0, 0]
            for name in likelihood.kinds
        }
    return {name: value.clamp(min=FLOOR) if name == "scale" else value for name, value in constants.items()}


def _rough(rows: Rows, prediction: Tensor) -> dict[str, Tensor]:
    """Return a start for the search of a scale: the mean absolute residual, which is zero only for a perfect fit."""
    if not rows.shape:
        return {"temperature": rows.weight.new_ones(())}
    return {"scale": (rows.y - prediction).abs().mean(0).clamp(min=FLOOR)}
