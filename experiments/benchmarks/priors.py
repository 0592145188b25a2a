"""Do priors that learn match a tuned weight decay, and prune what a network does not need?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor, nn

from experiments.benchmarks._bars import result_of
from experiments.data import list_regression, load_regression
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table
from likely import Global, paper, param_groups
from likely.losses import LikelihoodLoss, NormalLoss, SoftmaxLoss
from likely.priors import LaplacePrior, NormalPrior, Prior, SpikeSlabPrior

DECAYS = (0.0, 1e-3, 1e-2, 1e-1, 1.0)
REAL = ("wine_white", "bank32nh")
ROWS, STEPS, PRUNING_STEPS, BATCH, LEARNING_RATE = 1800, 600, 1000, 100, 1e-2
SPARSE, OBSERVE, EVERY = 0.8, 512, 10

Make = Callable[[nn.Module, int], Prior]

SPARSE_PRIORS: dict[str, Make] = {
    "Laplace": lambda model, n: LaplacePrior(model, per="element", n=n),
    "spike and slab": lambda model, n: SpikeSlabPrior(model, n=n),
}


@dataclass(frozen=True)
class Split:
    """Rows to learn from, rows to choose a weight decay on, and rows to report."""

    train: tuple[Tensor, Tensor]
    choose: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @property
    def all_but_test(self) -> tuple[Tensor, Tensor]:
        """What a method that needs no choosing learns from, and what the chosen decay is fitted to again."""
        (x, y), (u, v) = self.train, self.choose
        return torch.cat([x, u]), torch.cat([y, v])


def run(context: Context) -> Result:
    """Train every network with every decay and prior, on the same splits from the same start."""
    seeds = range(context.seed, context.seed + (2 if context.quick else 5))
    real = [] if context.quick else [name for name in REAL if name in list_regression(context.data)]
    shapes = [("digits", "MLP")] if context.quick else [("digits", kind) for kind in ("linear", "MLP", "CNN")]
    shapes += [(name, kind) for name in ("diabetes", *real) for kind in ("linear", "MLP")]
    work = [("decay", *shape, seed) for shape in shapes for seed in seeds]
    work += [("prune", name, "MLP", seed) for name in ("digits", *real) for seed in seeds]
    decays: list[tuple[Any, ...]] = []
    prunes: list[tuple[Any, ...]] = []
    for what, name, kind, seed in context.track(work):
        split = load(name, seed, context)
        if what == "decay":
            decays.append((name, kind, seed, *compare_decay(kind, split, seed)))
        else:
            prunes.extend((name, seed, *row) for row in compare_pruning(split, seed))
    decay = pd.DataFrame(decays, columns=["set", "network", "seed", "best decay", "tuned", "learned"])
    prune = pd.DataFrame(prunes, columns=["set", "seed", "prior", "plain", "pruned", "share zero"])
    return result_of(
        judge(decay, prune),
        (
            Table(
                paired(decay, ["set", "network"], "tuned", "learned"),
                "Test error (share wrong, or MSE over the variance) with the weight decay that was best on held-out "
                "rows, and with NormalPrior, which needs none; paired over splits.",
                digits=4,
            ),
            Table(
                paired(prune, ["set", "prior"], "plain", "pruned", "share zero"),
                "Test error of an MLP without a prior, and of one with it after pruning.",
                digits=4,
            ),
        ),
    )


def load(name: str, seed: int, context: Context) -> Split:
    """60% to train, 20% to choose, 20% to test, standardised by the first."""
    if name in ("digits", "diabetes"):
        X, y = (load_digits if name == "digits" else load_diabetes)(return_X_y=True)
    else:
        table = load_regression(name, context.data)
        X, y = table.X, table.y
    order = np.random.default_rng(seed).permutation(len(y))[:ROWS]
    X, y = X[order], y[order]
    parts = np.split(np.arange(len(y)), [int(0.6 * len(y)), int(0.8 * len(y))])
    first = parts[0]
    mean, deviation = np.nanmean(X[first], 0), np.nanstd(X[first], 0)
    X = np.clip(np.nan_to_num((X - mean) / np.where(deviation > 0, deviation, 1.0)), -5, 5)
    if name != "digits":
        y = ((y - y[first].mean()) / y[first].std())[:, None]
    x, target = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    target = target if name == "digits" else target.float()
    train, choose, test = ((x[part], target[part]) for part in parts)
    return Split(train, choose, test)


def compare_decay(kind: str, split: Split, seed: int) -> tuple[float, float, float]:
    """The decay that is best on held-out rows, the test error with it, and with a prior; both learn from all rows."""
    chosen = min(DECAYS, key=lambda decay: error(fit(kind, split.train, seed, decay)[0], split.choose))
    tuned, _ = fit(kind, split.all_but_test, seed, chosen)
    learned, _ = fit(kind, split.all_but_test, seed, make=lambda model, n: NormalPrior(model, n=n))
    return chosen, error(tuned, split.test), error(learned, split.test)


def compare_pruning(split: Split, seed: int) -> Iterator[tuple[str, float, float, float]]:
    """The test error of a plain MLP, and of one with each sparse prior, pruned; the share of weights that is zero."""
    plain = error(fit("MLP", split.all_but_test, seed, steps=PRUNING_STEPS)[0], split.test)
    for name, make in SPARSE_PRIORS.items():
        model, prior = fit("MLP", split.all_but_test, seed, make=make, steps=PRUNING_STEPS)
        zero = prior.prune_() if prior is not None else 0.0
        yield name, plain, error(model, split.test), zero


def paired(rows: pd.DataFrame, by: list[str], base: str, ours: str, *means: str) -> pd.DataFrame:
    """Means over seeds, and the mean difference with its standard error."""
    difference = (rows[ours] - rows[base]).rename("difference")
    grouped = pd.concat([rows, difference], axis=1).groupby(by, sort=False)
    table = grouped[[base, ours, "difference", *means]].mean()
    table.insert(3, "error", grouped["difference"].sem())
    return table


def judge(decay: pd.DataFrame, prune: pd.DataFrame) -> Iterator[Bar]:
    """No worse than what it replaces: by no more than twice the standard error, or than 1%. And most weights gone."""
    for (name, kind), row in paired(decay, ["set", "network"], "tuned", "learned").iterrows():
        yield _no_worse(f"learned L2, {name}, {kind}: error less the tuned one's", row, "tuned")
    sparse = prune[prune["prior"] == "Laplace"]
    for (name, prior), row in paired(sparse, ["set", "prior"], "plain", "pruned", "share zero").iterrows():
        yield _no_worse(f"{prior}, {name}: error less that without a prior", row, "plain")
        yield Bar(f"{prior}, {name}: share of weights that are zero", row["share zero"], "≥", SPARSE)


def _no_worse(name: str, row: pd.Series[float], base: str) -> Bar:
    return Bar(name, row["difference"], "≤", max(2 * row["error"], 0.01 * row[base]), spread=row["error"])


def network(kind: str, x: Tensor, y: Tensor) -> nn.Module:
    """A linear layer, an MLP or a small CNN."""
    outputs = y.shape[1] if y.is_floating_point() else 10
    if kind == "linear":
        return nn.Linear(x.shape[1], outputs)
    if kind == "MLP":
        return nn.Sequential(nn.Linear(x.shape[1], 200), nn.ReLU(), nn.Linear(200, outputs))
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, outputs),
    )


def fit(
    kind: str,
    rows: tuple[Tensor, Tensor],
    seed: int,
    decay: float = 0.0,
    make: Make | None = None,
    steps: int | None = None,
) -> tuple[nn.Module, Prior | None]:
    """Adam with a cosine schedule; the penalty is on the weights, as the priors', not on biases."""
    torch.manual_seed(seed)
    x, y = rows
    n = len(y)
    model = network(kind, x, y)
    scale = Global(**paper.SCALE)
    loss_fn: LikelihoodLoss = NormalLoss(scale) if y.is_floating_point() else SoftmaxLoss(1.0)
    each: LikelihoodLoss = type(loss_fn)(reduction="none", **{name: getattr(loss_fn, name) for name in loss_fn.slots})
    prior = make(model, n) if make else None
    groups = param_groups(model, loss_fn, LEARNING_RATE, multiplier=paper.MULTIPLIER)
    if prior is not None:
        groups.append({"params": list(prior.parameters()), "lr": LEARNING_RATE})
    optimizer = torch.optim.Adam(groups)
    weights = [p for p in model.parameters() if p.ndim > 1]
    per_epoch = math.ceil(n / BATCH)
    epochs = math.ceil((steps or STEPS) / per_epoch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * per_epoch)
    for epoch in range(epochs):
        for index in torch.randperm(n).split(BATCH):
            optimizer.zero_grad()
            loss = loss_fn(model(x[index]), y[index])
            if decay:
                loss = loss + 0.5 * decay * torch.stack([w.square().sum() for w in weights]).sum()
            if prior is not None:
                loss = loss + prior() / n
            loss.backward()
            optimizer.step()
            schedule.step()
        if prior is not None and epoch % EVERY == EVERY - 1:
            some = torch.randperm(n)[:OBSERVE]
            prior.observe(each(model(x[some]), y[some]), n)
    return model, prior


@torch.no_grad()
def error(model: nn.Module, rows: tuple[Tensor, Tensor]) -> float:
    """The share of wrong labels, or the mean squared error."""
    x, y = rows
    z = model(x)
    return float((z - y).square().mean() if y.is_floating_point() else (z.argmax(1) != y).double().mean())
