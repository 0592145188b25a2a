"""Training of networks: each without one fold, together with the parameters of their likelihood."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from likely._numerics.random import Seeded
from likely._solvers.training import Callbacks, History, fit_constants, train
from likely.likelihoods import Likelihood
from likely.linear import DynamicLogisticRegression, DynamicRidge, RobustLinearRegression
from likely.optim import param_groups
from likely.tabular.members.linear import lines_of_classes
from likely.tabular.networks.likelihood import NetworkLikelihood, NetworkWithLoss, Phi
from likely.tabular.networks.modules import MLP, Copies, tensors_of
from likely.tabular.networks.rows import CHUNK_ROWS, MAX_JUDGED_ROWS, Batches, TrainingRows, in_chunks, padded_folds

WEIGHT_DECAY = 0.1  # of AdamW
DROPOUT = 0.1  # share of the hidden units that is dropped in training
PATIENCE = 150  # steps without a lower held-out loss after which training ends
RATE_MULTIPLIER = 1.0  # of the likelihood's learning rate: at .01 the rates that param_groups would choose are worse
TINY = 1e-12
MIN_SCALE = 1e-6  # smallest scale, in spreads of the target: below it the fit is perfect


@dataclass(frozen=True)
class TrainingRecipe:
    """The settings of a training run."""

    make: Callable[[], nn.Module] | None
    hidden: Sequence[int]
    learning_rate: float
    batch_size: int | None
    max_steps: int
    cv: int | None
    seed: int
    callbacks: Callbacks = ()
    patience: int = PATIENCE

    def optimizer_of(self, fitted: NetworkWithLoss) -> torch.optim.Optimizer:
        """Return a new optimizer of the model and the likelihood's parameters."""
        groups = param_groups(
            fitted.model, fitted.loss_fn, self.learning_rate, weight_decay=WEIGHT_DECAY, multiplier=RATE_MULTIPLIER
        )
        return torch.optim.AdamW(groups, fused=True)


@dataclass
class Training:
    """Members, their loss and their optimizer."""

    likelihood: NetworkLikelihood
    fitted: NetworkWithLoss
    optimizer: torch.optim.Optimizer

    def run(self, rows: TrainingRows, folds: Tensor | None, recipe: TrainingRecipe) -> History:
        """Train each member without its fold, or all members on all rows where ``folds`` is None."""
        history = learn(rows, partial(self.nll, rows), self.fitted, folds, recipe, self.optimizer)
        self.fitted.eval()
        return history

    def out_of_fold(self, rows: TrainingRows, folds: Tensor) -> Tensor:
        """Predict each row by the member that was trained without it."""
        return predict_out_of_fold(folds, len(rows.x), lambda index: self.fitted.model(rows.x[index])[0])

    def out_of_fold_phi(self, rows: TrainingRows, folds: Tensor) -> Phi:
        """Predict the likelihood parameters of each row by that member."""
        model, loss_fn = self.fitted.model, self.fitted.loss_fn

        def phi(name: str, index: Tensor) -> Tensor:
            value: Tensor = getattr(loss_fn, name)(features=model(rows.x[index])[1])
            return self.likelihood.expanded(name, value, (*index.shape, *rows.shape))

        return {name: predict_out_of_fold(folds, len(rows.x), partial(phi, name)) for name in loss_fn.slots}

    def nll(self, rows: TrainingRows, index: Tensor) -> Tensor:
        """Compute the NLL, of shape (members, rows)."""
        prediction, features = self.fitted.model(rows.x[index])
        return rows.nll(self.fitted.loss_fn, prediction, index, features)


def fit_members(
    rows: TrainingRows, likelihood: NetworkLikelihood, recipe: TrainingRecipe
) -> tuple[Training, Tensor | None, History]:
    """Train one network per fold without that fold; also return the row numbers of each fold."""
    n = len(rows.x)
    folds = None if recipe.cv is None else padded_folds(n, min(recipe.cv, n), recipe.seed).to(rows.x.device)
    training = _start_members(rows, likelihood, recipe, folds)
    return training, folds, training.run(rows, folds, recipe)


def _start_members(
    rows: TrainingRows, likelihood: NetworkLikelihood, recipe: TrainingRecipe, folds: Tensor | None
) -> Training:
    """Return members before their first step, one per fold."""
    members = 1 if folds is None else len(folds)
    with Seeded(recipe.seed, all_draws=recipe.make is not None):
        if recipe.make is None:
            model: nn.Module = MLP(members, rows.x.shape[1], rows.outputs, recipe.hidden, DROPOUT)
        else:
            model = Copies(recipe.make, members)
        with torch.no_grad():
            prediction, features = model.to(rows.x.device).eval()(rows.x[:2])
    if prediction.shape[-1] != rows.outputs:
        raise ValueError(f"the model returns {prediction.shape[-1]} numbers per row, the targets need {rows.outputs}")
    start = None
    if isinstance(model, MLP) and folds is not None:
        start_at_lines(model, rows, folds, likelihood.record)
        if likelihood.kind in ("global", "predicted"):
            linear = predict_out_of_fold(folds, len(rows.x), lambda index: model(rows.x[index])[0])
            start = fit_likelihood(rows, likelihood, linear)
    loss_fn = likelihood.loss(members, rows.shape, width=features.shape[-1], rows=len(rows.x), start=start)
    fitted = NetworkWithLoss(model, loss_fn.to(rows.x.device))
    return Training(likelihood, fitted, recipe.optimizer_of(fitted))


def learn(
    rows: TrainingRows,
    nll: Callable[[Tensor], Tensor],
    fitted: NetworkWithLoss,
    folds: Tensor | None,
    recipe: TrainingRecipe,
    optimizer: torch.optim.Optimizer,
    margin: float | None = None,
) -> History:
    """Train members without their folds on ``nll(index)`` of shape (members, rows).

    Each member ends in its state of the lowest loss on its fold. With a ``margin`` all end in the state where the gain
    of all folds over the start, less ``margin`` standard errors of it, is largest.
    """
    members, device = 1 if folds is None else len(folds), rows.x.device
    batches = Batches(len(rows.x), recipe.batch_size, recipe.seed)
    excluded = _excluded(folds, len(rows.x), device)
    member = torch.arange(members, device=device)[:, None]

    def loss(step: int) -> Tensor:
        if not fitted.training:
            fitted.train()
        index = batches(step).to(device)
        weight = rows.weight[index] * (excluded[index] != member)
        return ((nll(index) * weight).sum(1) / weight.sum(1).clamp(min=TINY)).sum()

    judge, judged = None, 0
    if folds is not None:
        held_out_rows = folds[:, : -(-MAX_JUDGED_ROWS // members)]
        judge, judged = _judge(rows, nll, fitted, held_out_rows, margin), held_out_rows.shape[1]
    tensors = tensors_of(fitted, members)
    interval = max(20, 2 * judged // batches.size)
    return train(
        loss,
        fitted,
        optimizer,
        max_steps=recipe.max_steps,
        judge=judge,
        members=tensors if margin is None else [[tensor for group in tensors for tensor in group]],
        every=interval,
        patience=max(recipe.patience, 5 * interval),
        seed=recipe.seed,
        callbacks=recipe.callbacks,
    )


def _excluded(folds: Tensor | None, n: int, device: torch.device) -> Tensor:
    """Return the member that must not learn from each row, −1 for none."""
    excluded = torch.full((n,), -1, device=device)
    if folds is not None:
        excluded[folds] = torch.arange(len(folds), device=device)[:, None].expand_as(folds)
    return excluded


def _judge(
    rows: TrainingRows,
    nll: Callable[[Tensor], Tensor],
    fitted: NetworkWithLoss,
    held_out_rows: Tensor,
    margin: float | None,
) -> Callable[[], Tensor]:
    """Return the function that computes held-out losses: one per member, or with a margin one bound for all."""
    weight = rows.weight[held_out_rows]
    start: list[Tensor] = []

    def judge() -> Tensor:
        fitted.eval()
        held_out = (nll(held_out_rows) * weight).double()
        if margin is None:
            return held_out.sum(1) / weight.sum(1).clamp(min=TINY)
        if not start:
            start.append(held_out)
        gain = (start[0] - held_out).flatten()
        loss_bound: Tensor = margin * gain.std(correction=0) / len(gain) ** 0.5 - gain.mean()
        return loss_bound[None]

    return judge


@torch.no_grad()
def nll_at(rows: TrainingRows, likelihood: NetworkLikelihood, prediction: Tensor, phi: Mapping[str, Tensor]) -> Tensor:
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


def fit_likelihood(rows: TrainingRows, likelihood: NetworkLikelihood, prediction: Tensor) -> Phi:
    """Fit one value of each parameter for all rows, by maximum likelihood at these predictions."""
    loss_fn = likelihood.constant().loss(1, rows.shape).to(rows.x.device)
    total = rows.weight.double().sum()
    double_rows = replace(rows, y=rows.y.double()) if rows.shape else rows

    def chunk_loss(index: Tensor) -> Tensor:
        nll = double_rows.nll(loss_fn, prediction[None, index].double(), index, None)
        return (nll * rows.weight[index] / total).sum()

    chunks = torch.arange(len(rows.x), device=rows.x.device).split(8 * CHUNK_ROWS)
    fit_constants(loss_fn, *(partial(chunk_loss, index) for index in chunks))
    with torch.no_grad():
        constants = {
            name: likelihood.expanded(name, getattr(loss_fn, name)().float(), (1, 1, *rows.shape))[0, 0]
            for name in likelihood.family.slots
        }
    return {name: bounded(name, value) for name, value in constants.items()}


def bounded(name: str, value: Tensor) -> Tensor:
    """Keep a scale from vanishing, as it would where predictions are exact."""
    return value.clamp(min=MIN_SCALE) if name == "scale" else value


NORMAL_ROWS = 20_000  # largest number of rows that a linear model is fitted to by the normal likelihood
OTHER_ROWS = 2000  # the same by any other


def start_at_lines(model: MLP, rows: TrainingRows, folds: Tensor, likelihood: Likelihood) -> None:
    """Set each network to a linear model fitted without its fold: one with a learned prior, or a robust one.

    Where the likelihood has a link, such as the logarithm of a mean, a network starts at the best constant.
    """
    plain = likelihood.name == "normal"
    most_rows = NORMAL_ROWS if plain else OTHER_ROWS
    for m, fold in enumerate(folds.cpu().numpy()):
        train = np.delete(np.arange(len(rows.x)), fold)
        train = train[:: -(-len(train) // most_rows)]  # spread over a table that may be sorted
        x, y, weight = (part[train].double().cpu().numpy() for part in (rows.x, rows.y, rows.weight))
        inputs = {"X": x, "sample_weight": weight}
        if not rows.shape:
            _start_at_boundaries(model, m, y.astype(int), inputs)
            continue
        if likelihood.start is not None:
            model.line.bias.data[m, 0] = torch.as_tensor(likelihood.start(y, weight), dtype=torch.float32)
            continue
        for t in range(y.shape[1]):
            line = DynamicRidge() if plain else RobustLinearRegression(random_state=0)
            line.fit(y=y[:, t], **inputs)
            model.line.weight.data[m, :, t] = torch.as_tensor(line.coef_, dtype=torch.float32)
            model.line.bias.data[m, 0, t] = float(line.intercept_)


def _start_at_boundaries(model: MLP, m: int, labels: NDArray[np.int_], inputs: dict[str, Any]) -> None:
    if len(np.unique(labels)) < 2:
        return
    line = DynamicLogisticRegression().fit(y=labels, **inputs)
    weight, bias = lines_of_classes(line)
    model.line.weight.data[m, :, line.classes_] = torch.as_tensor(weight.T, dtype=torch.float32)
    model.line.bias.data[m, 0, line.classes_] = torch.as_tensor(bias, dtype=torch.float32)
