"""How networks learn from a table: each blind to a fold, then the likelihood's parameters from what they missed."""

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
from likely.tabular._lines import draw_lines
from likely.tabular._members import MLP, Copies, Heads, tensors_of
from likely.tabular._processes import Processes
from likely.tabular._rows import CHUNK, JUDGED, Batches, Rows, deal, in_chunks

HEADS, DROPPED = 32, 0.2  # hidden units between the inputs and the likelihood's parameters, and their dropout
MARGIN = 2.0  # standard errors by which held-out rows must gain before a parameter may vary
OFFSET = 0.2  # of the map to a scale or temperature, relative to the one for all rows
EDGE = 0.01  # of what the networks say in training: where they are surest and least sure they are heard no further
LOW = 0.01  # the same for a scale that networks learn with the mean: the paper's, relative to the line's residuals
SECOND: dict[str, Any] = {"learning_rate": 0.003, "batch_size": 1024, "max_steps": 500, "patience": 100}
MULTIPLIER = 1.0  # of the likelihood's learning rate; the paper's is .1, with rates ten times lower than ours
TINY = 1e-12
STAGES = ("members", "second", "members-again", "second-again")
FLOOR = 1e-6  # of the target's spread: a scale below it is a perfect fit


@dataclass(frozen=True)
class Recipe:
    """How long, how fast and how carefully to train."""

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
    about: Mapping[str, Any] | None = None

    def saved(self, stage: str) -> Checkpoint | None:
        """The file of a stage."""
        if self.checkpoint is None:
            return None
        return Checkpoint(f"{self.checkpoint}.{stage}", {**(self.about or {}), "stage": stage})

    def optimizer_of(self, model: nn.Module, loss_fn: LikelihoodLoss) -> torch.optim.Optimizer:
        """A new optimizer of all that learns."""
        rate, decay = self.learning_rate, self.weight_decay
        return self.optimizer(param_groups(model, loss_fn, rate, weight_decay=decay, multiplier=MULTIPLIER))

    def forget(self) -> None:
        """The run is done and its files are not needed any more."""
        for stage in STAGES if self.checkpoint is not None else ():
            Path(f"{self.checkpoint}.{stage}").unlink(missing_ok=True)


@dataclass
class Training:
    """Members with their loss, and the optimizer that moves them."""

    likelihood: Likelihood
    fitted: Fitted
    plain: LikelihoodLoss | None  # what the mean learns by, where the scale must not touch it
    optimizer: torch.optim.Optimizer

    def run(self, rows: Rows, folds: Tensor | None, recipe: Recipe, stage: str = "members") -> History:
        """Train, blind to the folds if there are any."""
        history = _learn(rows, partial(self.nll, rows), self.fitted, folds, recipe, self.optimizer, stage)
        self.fitted.eval()
        return history

    def blind(self, rows: Rows, folds: Tensor) -> Tensor:
        """Every row's prediction by the member that has not seen it."""
        return blindly(folds, len(rows.x), lambda index: self.fitted.model(rows.x[index])[0])

    def blind_phi(self, rows: Rows, folds: Tensor) -> dict[str, Tensor]:
        """Every row's likelihood parameters by that member."""
        model, loss_fn = self.fitted.model, self.fitted.loss_fn

        def phi(name: str, index: Tensor) -> Tensor:
            value: Tensor = getattr(loss_fn, name)(features=model(rows.x[index])[1])
            return self.likelihood.expanded(name, value, (*index.shape, *rows.shape))

        return {name: blindly(folds, len(rows.x), partial(phi, name)) for name in loss_fn.slots}

    def nll(self, rows: Rows, index: Tensor) -> Tensor:
        """(members, rows); in training, what to descend."""
        prediction, features = self.fitted.model(rows.x[index])
        if self.plain is None or not self.fitted.training:
            return rows.nll(self.fitted.loss_fn, prediction, index, features)
        separate = rows.nll(self.fitted.loss_fn, prediction.detach(), index, features)
        return rows.nll(self.plain, prediction, index, None) + separate


def start_members(
    rows: Rows, likelihood: Likelihood, objective: str, recipe: Recipe, folds: Tensor | None = None
) -> Training:
    """Members before their first step, one for each fold."""
    members = 1 if folds is None else len(folds)
    with Seeded(recipe.seed, all_draws=recipe.make is not None):
        if recipe.make is None:
            model: nn.Module = MLP(members, rows.x.shape[1], rows.outputs, recipe.hidden, recipe.dropout)
        else:
            model = Copies(recipe.make, members)
        with torch.no_grad():
            prediction, features = model.to(rows.x.device).eval()(rows.x[:2])
    if prediction.shape[-1] != rows.outputs:
        raise ValueError(f"the model returns {prediction.shape[-1]} numbers a row, the targets need {rows.outputs}")
    start = None
    if isinstance(model, MLP) and folds is not None:
        draw_lines(model, rows, folds, likelihood.record)
        if likelihood.having("global") or likelihood.having("predicted"):
            drawn = blindly(folds, len(rows.x), lambda index: model(rows.x[index])[0])
            start = fit_likelihood(rows, likelihood, drawn)
    own: dict[str, Any] = {"beta": 0.5} if objective == "beta" else {}
    faithful = objective == "faithful"
    own |= {"width": features.shape[-1], "rows": len(rows.x), "isolated": faithful, "start": start}
    if rows.shape:
        own["relative"] = LOW
    loss_fn = likelihood.loss(members, rows.shape, **own).to(rows.x.device)
    plain = likelihood.plain().loss(members, rows.shape).to(rows.x.device) if faithful else None
    return Training(likelihood, Fitted(model, loss_fn), plain, recipe.optimizer_of(model, loss_fn))


def fit_members(
    rows: Rows, likelihood: Likelihood, objective: str, recipe: Recipe
) -> tuple[Training, Tensor | None, History]:
    """Networks that each leave out a fold and stop when it stops gaining; and the folds, a row of numbers each."""
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
    """Train members blind to their folds on ``nll(index)`` of shape (members, rows).

    Each stops where its fold is best; with a ``margin`` all stop together, where the folds have gained most over the
    start, less so many standard errors of the gain.
    """
    members, device = 1 if folds is None else len(folds), rows.x.device
    batches, who = Batches(len(rows.x), recipe.batch_size, recipe.seed), torch.arange(members, device=device)[:, None]
    unseen = torch.full((len(rows.x),), -1, device=device)  # the member that must not see a row
    if folds is not None:
        unseen[folds] = who.expand_as(folds)
    looked_at = torch.arange(0, device=device)[None] if folds is None else folds[:, : -(-JUDGED // members)]
    looked_at_weight = rows.weight[looked_at]
    start: list[Tensor] = []
    processes = Processes.current()
    share = processes.share

    def loss(step: int) -> Tensor:
        if not fitted.training:
            fitted.train()
        index = batches(step).to(device)
        weight = rows.weight[index] * (unseen[index] != who)
        each = nll(index[share]) * weight[:, share]
        return (each.sum(1) / weight.sum(1).clamp(min=TINY)).sum()

    def judge() -> Tensor:
        processes.equalize(fitted.buffers())
        return processes.from_first(own_judge())

    def own_judge() -> Tensor:
        fitted.eval()
        held = (nll(looked_at) * looked_at_weight).double()
        if margin is None:
            return held.sum(1) / looked_at_weight.sum(1).clamp(min=TINY)
        if not start:
            start.append(held)
        gain = (start[0] - held).flatten()
        unsure: Tensor = margin * gain.std(correction=0) / len(gain) ** 0.5 - gain.mean()
        return unsure[None]

    own = tensors_of(fitted, members)
    every = max(20, 2 * looked_at.shape[1] // batches.size)
    foreign = isinstance(fitted.model, Copies)  # draws what it likes: each process by itself
    with processes.adding_up(fitted, optimizer, batches.size):
        return train(
            loss,
            fitted,
            optimizer,
            max_steps=recipe.max_steps,
            judge=None if folds is None else judge,
            members=own if margin is None else [[tensor for one in own for tensor in one]],
            every=every,
            patience=max(recipe.patience, 5 * every),
            seed=recipe.seed + (processes.rank if foreign else 0),
            callbacks=processes.agreeing(recipe.callbacks, device),
            checkpoint=recipe.saved(stage),
        )


def fit_two_stage(rows: Rows, likelihood: Likelihood, recipe: Recipe) -> tuple[Training, Second, Tensor, History]:
    """The mean, then the likelihood's parameters on rows left out; and once more, with sure rows counting for more.

    A row counts by one over its scale. That is half of what its likelihood asks for: all of it would let a few rows
    that look sure decide. The second round stands only where the rows left out do not lose by the plain loss.
    """
    training, folds, history = fit_members(rows, likelihood.plain(), "two_stage", recipe)
    assert folds is not None
    blind = training.blind(rows, folds)
    second = fit_second(rows, likelihood, blind, recipe, "second")
    phi = second.mean(rows.x, blind)
    spread = next((phi[name] for name in UNITS if name in phi), None)
    if second.fitted is None or spread is None:
        return training, second, blind, history
    weight = rows.weight / spread.reshape(len(rows.x), -1).mean(1)
    fitted = copy.deepcopy(training.fitted)
    again = Training(training.likelihood, fitted, None, recipe.optimizer_of(fitted.model, fitted.loss_fn))
    weighted = replace(rows, weight=weight / weight.mean())
    further = again.run(weighted, folds, replace(recipe, seed=recipe.seed + 2), "members-again")
    seen_again = again.blind(rows, folds)
    worse = _plain(rows, likelihood, seen_again) > _plain(rows, likelihood, blind)
    if Processes.current().first(worse, rows.x.device):
        return training, second, blind, history
    history.step += further.step
    return again, fit_second(rows, likelihood, seen_again, recipe, "second-again"), seen_again, history


def _plain(rows: Rows, likelihood: Likelihood, blind: Tensor) -> float:
    """The loss that the first stage descends, at its likeliest constants."""
    constants = fit_likelihood(rows, likelihood.plain(), blind)
    return float((nll_at(rows, likelihood, blind, constants) * rows.weight).sum())


@torch.no_grad()
def nll_at(rows: Rows, likelihood: Likelihood, prediction: Tensor, phi: Mapping[str, Tensor]) -> Tensor:
    """Each row's NLL at predictions (rows, outputs) and likelihood parameters beside them."""
    shape = (1, *rows.y.shape)
    loss_fn = likelihood.made(**{name: likelihood.expanded(name, value, shape) for name, value in phi.items()})
    return rows.nll(loss_fn, prediction[None], torch.arange(len(rows.x), device=rows.x.device), None)[0]


@torch.no_grad()
def blindly(folds: Tensor, n: int, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """``compute(index)`` of shape (members, rows, …) for every row, by the member that has not seen it."""
    values = in_chunks(folds.shape[1], lambda some: {"": compute(folds[:, some])}, 1)[""]
    answer = values.new_empty(n, *values.shape[2:])
    answer[folds.flatten()] = values.flatten(0, 1)
    return answer


@dataclass(frozen=True)
class Second:
    """The likelihood's parameters given predictions that were made blind."""

    fitted: Fitted | None  # none: the same for all rows
    constants: dict[str, Tensor]
    range: dict[str, tuple[Tensor, Tensor]]
    gain: float  # in nats a row, what is sure of it

    @torch.no_grad()
    def __call__(self, x: Tensor, prediction: Tensor) -> dict[str, Tensor]:
        """Each parameter of each row by each member: (members, rows, targets), or (members, rows), or broadcasting."""
        if self.fitted is None:
            return {name: value[None] for name, value in self.constants.items()}
        phi = self.unbounded(x, prediction)
        # No row is surer or less sure than nearly all met in training: a network may say anything elsewhere.
        return {name: value.clamp(*self.range[name]) for name, value in phi.items()}

    @torch.no_grad()
    def unbounded(self, x: Tensor, prediction: Tensor) -> dict[str, Tensor]:
        """What the networks say."""
        assert self.fitted is not None
        features, loss_fn = self.fitted.model(torch.cat([x, prediction], -1)), self.fitted.loss_fn
        return {name: getattr(loss_fn, name)(features=features) for name in loss_fn.slots}

    def mean(self, x: Tensor, prediction: Tensor) -> dict[str, Tensor]:
        """The members' mean, some rows at a time."""
        if self.fitted is None:
            return self.constants

        def means(some: slice) -> dict[str, Tensor]:
            return {name: value.mean(0) for name, value in self(x[some], prediction[some]).items()}

        return in_chunks(len(x), means, 0)


def fit_second(rows: Rows, likelihood: Likelihood, blind: Tensor, recipe: Recipe, stage: str) -> Second:
    """Constants first, then what varies with the row, for as long as rows left out surely gain by it."""
    constants = fit_likelihood(rows, likelihood, blind)
    if not likelihood.having("predicted"):
        return Second(None, constants, {}, 0.0)
    assert recipe.cv is not None
    members = min(recipe.cv, len(rows.x))
    steps = min(recipe.max_steps, SECOND["max_steps"])
    recipe = replace(recipe, seed=recipe.seed + 1, **{**SECOND, "max_steps": steps})
    with Seeded(recipe.seed, all_draws=False):
        model = Heads(members, rows.x.shape[1] + blind.shape[1], HEADS, DROPPED)
        loss_fn = likelihood.undata().loss(members, rows.shape, width=model.width, start=constants, relative=OFFSET)
    fitted = Fitted(model, loss_fn).to(rows.x)

    def nll(index: Tensor) -> Tensor:
        prediction = blind[index].expand(members, -1, -1)
        return rows.nll(fitted.loss_fn, prediction, index, fitted.model(torch.cat([rows.x[index], blind[index]], -1)))

    folds = deal(len(rows.x), members, recipe.seed).to(rows.x.device)
    optimizer = torch.optim.Adam(fitted.parameters(), lr=recipe.learning_rate, fused=True)
    history = _learn(rows, nll, fitted, folds, recipe, optimizer, stage, MARGIN)
    if int(history.best_step) == 0:
        return Second(None, constants, {}, 0.0)
    second = Second(fitted.eval(), constants, {}, -float(history.best))
    for name, met in in_chunks(len(rows.x), lambda some: second.unbounded(rows.x[some], blind[some]), 1).items():
        ends = np.quantile(met.flatten(0, 1).cpu().numpy(), [EDGE, 1 - EDGE], axis=0)
        second.range[name] = (torch.as_tensor(ends[0]).to(met), torch.as_tensor(ends[1]).to(met))
    return second


def fit_likelihood(rows: Rows, likelihood: Likelihood, prediction: Tensor) -> dict[str, Tensor]:
    """One value of each parameter for all rows: the likeliest at these predictions."""
    start = _rough(rows, prediction) if likelihood.record.start is None else None
    loss_fn = likelihood.constant().loss(1, rows.shape, start=start, relative=0.0).to(rows.x.device)
    total = rows.weight.double().sum()
    own = replace(rows, y=rows.y.double()) if rows.shape else rows

    def part(index: Tensor) -> Tensor:
        nll = own.nll(loss_fn, prediction[None, index].double(), index, None)
        return (nll * rows.weight[index] / total).sum()

    some = torch.arange(len(rows.x), device=rows.x.device).split(8 * CHUNK)
    fit_constants(loss_fn, *(partial(part, index) for index in some))
    with torch.no_grad():
        found = {
            name: likelihood.expanded(name, getattr(loss_fn, name)().float(), (1, 1, *rows.shape))[0, 0]
            for name in likelihood.kinds
        }
    return {name: value.clamp(min=FLOOR) if name == "scale" else value for name, value in found.items()}


def _rough(rows: Rows, prediction: Tensor) -> dict[str, Tensor]:
    """Where the search for a scale starts: at the mean absolute residual, which is zero for a perfect fit only."""
    if not rows.shape:
        return {"temperature": rows.weight.new_ones(())}
    return {"scale": (rows.y - prediction).abs().mean(0).clamp(min=FLOOR)}
