"""One training of a small network with a loss, on a real table in its own unit; the loss is ours or written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor, nn

import likely
from experiments.data import load_regression
from likely.likelihoods import LIKELIHOODS

ROWS, WIDTH, BATCH = 4000, 32, 128
CLASSES = ("digits", "wine", "iris", "breast_cancer")  # of scikit-learn
SHAPES = {"df": 4.0, "alpha": 1.0, "skew": 0.0, "delta": 1.345, "quantile": 0.5}  # where shapes start, by hand too
HELD = ("delta", "quantile")  # shapes that do not learn by default

OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "Adam": torch.optim.Adam,
    "SGD": lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=0.9),
    "Adagrad": torch.optim.Adagrad,
}


class Task(NamedTuple):
    """What is trained; ``kind`` is ours, by hand, ours predicted or by hand predicted."""

    table: str
    likelihood: str = "normal"
    kind: str = "ours"
    unit: float = 1.0
    optimizer: str = "Adam"
    lr: float = 1e-3
    steps: int = 2000
    multiplier: float | None = None
    delta: float | None = None
    seed: int = 0


class Table(NamedTuple):
    """Standardised inputs and targets in their own unit, for training and validation."""

    x: Tensor
    y: Tensor
    new_x: Tensor
    new_y: Tensor


def load(name: str, seed: int, data: Path | None) -> Table:
    """At most 4,000 rows of a table, four fifths of them for training; gaps are filled by the mean."""
    if name in (*CLASSES, "diabetes"):
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    else:
        table = load_regression(name, data)
        x, y = table.X, table.y
    order = np.random.RandomState(seed).permutation(len(y))[:ROWS]
    x, y, n = x[order], y[order], len(order) * 4 // 5
    mean, deviation = np.nanmean(x[:n], axis=0), np.nanstd(x[:n], axis=0)
    x = np.nan_to_num((x - mean) / np.where(deviation > 0, deviation, 1)).clip(-10, 10)
    inputs = torch.tensor(x, dtype=torch.float32)
    targets = torch.tensor(y) if name in CLASSES else torch.tensor(y, dtype=torch.float64)[:, None]
    return Table(inputs[:n], targets[:n], inputs[n:], targets[n:])


class Network(nn.Module):
    """One hidden layer; outputs are in the unit of the targets."""

    def __init__(self, width: int, outputs: int, mean: float = 0.0, deviation: float = 1.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, outputs)
        self.mean, self.deviation = mean, deviation

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return self.head(features) * self.deviation + self.mean, features


class ByHand(nn.Module):
    """A likelihood with ``raw.exp()`` as its scale or temperature, or a second head that predicts the logarithm."""

    def __init__(self, likelihood: str, unit: str, start: float, shapes: Mapping[str, float], predicted: bool) -> None:
        super().__init__()
        self.nll, self.unit = LIKELIHOODS[likelihood].nll, unit
        self.raw = nn.Linear(WIDTH, 1) if predicted else nn.Parameter(torch.tensor(math.log(start)))
        if isinstance(self.raw, nn.Linear):
            nn.init.constant_(self.raw.bias, math.log(start))
        self.held = {name: value for name, value in shapes.items() if name in HELD}
        self.shapes = nn.ParameterDict({k: torch.tensor(_raw(k, v)) for k, v in shapes.items() if k not in HELD})

    def scale(self, features: Tensor) -> Tensor:
        return (self.raw(features) if isinstance(self.raw, nn.Linear) else self.raw).exp()

    def forward(self, prediction: Tensor, target: Tensor, features: Tensor, reduction: str = "mean") -> Tensor:
        shapes = {name: _value(name, raw) for name, raw in self.shapes.items()}
        phi = {self.unit: self.scale(features), **shapes, **self.held}
        return self.nll(prediction, target, **phi, reduction=reduction)


def _raw(name: str, value: float) -> float:
    return math.log(value) if name == "df" else math.log(value / (3 - value)) if name == "alpha" else value


def _value(name: str, raw: Tensor) -> Tensor:
    return raw.exp() if name == "df" else 3 * raw.sigmoid() if name == "alpha" else 3 * (raw / 3).tanh()


def our_loss(task: Task) -> likely.LikelihoodLoss:
    """The loss with its defaults."""
    options: dict[str, Any] = {} if task.delta is None else {"delta": task.delta}
    if "predicted" in task.kind:
        options["scale"] = likely.Predicted(WIDTH)
    return LIKELIHOODS[task.likelihood].loss(**options)


def train(task: Task, data: Path | None) -> dict[str, float]:
    """Train, and measure the NLL of new rows in the table's own unit: at the end, at its lowest, and of the worst row.

    ``scale`` is that of the end, relative to the errors in training.
    """
    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    table = load(task.table, task.seed, data)
    classes = task.table in CLASSES
    if classes:
        x, y, new_x, new_y = table
        if task.likelihood == "bernoulli":
            y, new_y = y[:, None].float(), new_y[:, None].float()
        network = Network(x.shape[1], 1 if task.likelihood == "bernoulli" else int(y.max()) + 1)
    else:
        x, new_x = table.x, table.new_x
        y, new_y = ((part * task.unit).float() for part in (table.y, table.new_y))
        network = Network(x.shape[1], 1, float(y.mean()), float(y.std()))
    unit = "temperature" if classes else "scale"
    loss_fn: nn.Module
    if task.kind.startswith("ours"):
        loss_fn = our_loss(task)
        groups = likely.param_groups(network, loss_fn, task.lr, multiplier=task.multiplier)
    else:
        # By hand the scale starts at the truth: the errors of the same network after as many steps of squared error.
        truth = 1.0 if classes else errors_of_plain(task, table)
        slots = LIKELIHOODS[task.likelihood].loss.slots
        shapes = {name: task.delta or SHAPES[name] for name in slots if name in SHAPES}
        loss_fn = ByHand(task.likelihood, unit, truth, shapes, "predicted" in task.kind)
        groups = [{"params": [*network.parameters(), *loss_fn.parameters()], "lr": task.lr}]
    shift = 0.0 if classes else math.log(task.unit)

    @torch.no_grad()
    def on_new_rows() -> Tensor:
        prediction, features = network(new_x)
        loss_fn.eval()
        if isinstance(loss_fn, likely.LikelihoodLoss):
            loss_fn.reduction = "none"
            nll = loss_fn(prediction, new_y, features=features)
            loss_fn.reduction = "mean"
        else:
            nll = loss_fn(prediction, new_y, features, reduction="none")
        loss_fn.train()
        return nll.double() - shift

    path = descend(network, loss_fn, OPTIMIZERS[task.optimizer](groups, lr=task.lr), x, y, task, on_new_rows)
    with torch.no_grad():
        prediction, features = network(x)
        value = loss_fn.scale(features) if isinstance(loss_fn, ByHand) else getattr(loss_fn, unit)(features=features)
        error = 1.0 if classes else float((prediction - y).double().square().mean().sqrt())
    nll = on_new_rows()
    return {
        "nll": float(nll.mean()),
        "lowest": min(path),
        "worst": float(nll.max()),
        "scale": float(value.mean()) / error,
    }


def errors_of_plain(task: Task, table: Table) -> float:
    """The training RMSE of the same network after as many steps of the mean squared error."""
    torch.manual_seed(task.seed)
    y = (table.y / table.y.std()).float()
    network = Network(table.x.shape[1], 1, float(y.mean()), 1.0)
    optimizer = OPTIMIZERS[task.optimizer](network.parameters(), lr=task.lr)

    def loss(prediction: Tensor, target: Tensor, features: Tensor) -> Tensor:
        return nn.functional.mse_loss(prediction, target)

    descend(network, loss, optimizer, table.x, y, task)
    with torch.no_grad():
        error = float((network(table.x)[0] - y).square().mean().sqrt())
    torch.manual_seed(task.seed)
    return (error if math.isfinite(error) and error > 0 else 1.0) * float(table.y.std()) * task.unit


def descend(
    network: nn.Module,
    loss_fn: Any,
    optimizer: Any,
    x: Tensor,
    y: Tensor,
    task: Task,
    watched: Callable[[], Tensor] | None = None,
) -> list[float]:
    """Take steps on random batches, the same for every loss; return the mean of what is watched, twenty times."""
    generator = torch.Generator().manual_seed(task.seed)
    path = []
    for step in range(1, task.steps + 1):
        rows = torch.randint(len(x), (min(BATCH, len(x)),), generator=generator)
        prediction, features = network(x[rows])
        optimizer.zero_grad()
        loss_fn(prediction, y[rows], features=features).backward()
        optimizer.step()
        if watched is not None and step % max(1, task.steps // 20) == 0:
            path.append(float(watched().mean()))
    return path
