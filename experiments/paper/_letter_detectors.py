"""PCA+S and AE+S as the paper's text has them: torch's own layers, and many of them trained at once.

One replica is an autoencoder of ``nn.Linear`` layers and a normal likelihood whose scale is predicted from the row.
Replicas that differ only in their seed and their start have the same layers, so their weights are stacked and a step
of all of them is one call of ``vmap``: on a GPU ten steps are one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from experiments.paper._graphed import WARM, captured
from likely import paper
from likely.losses import NormalLoss
from likely.parameters import Predicted

PCA_S, AE_S = "PCA+S", "AE+S"
STARTS = ("torch", "Glorot", "He")  # of the network that predicts the scale
COMPONENTS = ("PCA", "random")  # where the components of PCA+S start
BUNDLE = 10  # steps in one graph


class Reading(NamedTuple):
    """What the paper fixes, and after it one choice for each thing that it leaves open."""

    rate: float = 5e-4
    steps: int = 4000
    dropout: float = 0.2
    batch: int | None = None  # rows of a step; None: all of them, as the paper's regressors have it
    half_code: bool = False  # d/2 numbers in the code, not √d
    hidden: int = 32  # units of the scale's network, and of the autoencoder's hidden layers
    tenth: bool = False  # the scale learns at a tenth of the rate, its gradient clipped to norm 1
    per_row: bool = False  # a free scale for each training row, which "data-conditioned" may mean too


class Replica(NamedTuple):
    """One of the networks that are trained at once."""

    seed: int
    start: str = "torch"
    components: str = "random"


class Letter(nn.Module):
    """An autoencoder, and the normal likelihood of what it misses with one scale per row."""

    def __init__(self, model: str, rows: int, width: int, reading: Reading) -> None:
        super().__init__()
        code = max(1, round(width / 2 if reading.half_code else width**0.5))
        hidden, thin = reading.hidden, nn.Dropout(reading.dropout)
        if model == PCA_S:
            self.encoder = nn.Sequential(thin, nn.Linear(width, code))
            self.decoder = nn.Sequential(nn.Linear(code, width))
        else:
            self.encoder = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), thin, nn.Linear(hidden, code))
            self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, width))
        net: nn.Module = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        net = Free(rows) if reading.per_row else net
        scale = Predicted(width, net=net, normalize=False, **paper.SCALE)
        self.loss_fn = NormalLoss(scale, validate_args=False)

    def forward(self, x: Tensor) -> Tensor:
        """The mean NLL of these rows."""
        value: Tensor = self.loss_fn(self.decoder(self.encoder(x)), x, features=x)
        return value

    def scale(self, x: Tensor) -> Tensor:
        """The score: σ of each row."""
        found: Tensor = self.loss_fn.scale(features=x)  # type: ignore[operator]
        return found


class Free(nn.Module):
    """A value for each training row, all of which are shown at once: ``likely.Data`` does not go through ``vmap``."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(rows, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The values, whatever is in the rows."""
        return self.value


@torch.no_grad()
def started(model: str, x: Tensor, reading: Reading, replica: Replica) -> Letter:
    """One replica before its first step; of the scale's network the last bias is the constraint's inverse of one."""
    torch.manual_seed(replica.seed)
    letter = Letter(model, len(x), x.shape[1], reading)
    net = letter.loss_fn.scale.net  # type: ignore[union-attr]
    if isinstance(net, nn.Sequential):
        linear = [layer for layer in net if isinstance(layer, nn.Linear)]
        for layer in linear:
            if replica.start == "Glorot":
                nn.init.xavier_uniform_(layer.weight)
            elif replica.start == "He":
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if replica.start != "torch":
                nn.init.zeros_(layer.bias)
        nn.init.zeros_(linear[-1].bias)
    if model == PCA_S and replica.components == "PCA":
        whole = [*letter.encoder, *letter.decoder]
        encoder, decoder = (layer for layer in whole if isinstance(layer, nn.Linear))
        axes = torch.linalg.eigh(x.double().T @ x.double())[1].flip(1)[:, : decoder.in_features]
        encoder.weight.copy_(axes.T)
        decoder.weight.copy_(axes)
        nn.init.zeros_(encoder.bias)
        nn.init.zeros_(decoder.bias)
    return letter


def scores(
    model: str, rows: NDArray[np.float64], reading: Reading, replicas: list[Replica], place: torch.device
) -> NDArray[np.float64]:
    """Train every replica on all rows, which are standardised, and return σ of each: (replicas, rows)."""
    x = torch.as_tensor(rows, dtype=torch.float32)
    letters = [started(model, x, reading, replica).to(place).train() for replica in replicas]
    x = x.to(place)
    torch.manual_seed(replicas[0].seed)  # of dropout and of batches, which are the same for every replica
    weights, buffers = stack_module_state(letters)
    base = deepcopy(letters[0]).to("meta")
    _take_steps(_step(base, weights, buffers, x, reading), reading.steps, place)

    def scale(own: dict[str, Tensor], kept: dict[str, Tensor]) -> Tensor:
        found: Tensor = functional_call(_Scale(base), _under(own) | _under(kept), (x,))
        return found.reshape(len(x))

    with torch.no_grad():
        sigma = torch.vmap(scale)(weights, buffers)
    return sigma.double().cpu().numpy()


class _Scale(nn.Module):
    """``Letter.scale`` as a forward pass, which ``functional_call`` needs."""

    def __init__(self, letter: Letter) -> None:
        super().__init__()
        self.letter = letter

    def forward(self, x: Tensor) -> Tensor:
        return self.letter.scale(x)


def _under(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"letter.{name}": value for name, value in state.items()}


def _step(
    base: Letter,
    weights: dict[str, Tensor],
    buffers: dict[str, Tensor],
    x: Tensor,
    reading: Reading,
) -> Callable[[], None]:
    """What takes one step of all replicas; nothing in it reads the host's memory or waits for the device."""
    likelihood = [value for name, value in weights.items() if name.startswith("loss_fn")]
    model = [value for name, value in weights.items() if not name.startswith("loss_fn")]
    slow = reading.rate * (0.1 if reading.tenth else 1.0)
    groups = [{"params": model, "lr": reading.rate}, {"params": likelihood, "lr": slow}]
    optimizer = torch.optim.Adam(groups, fused=True, capturable=x.is_cuda)
    size = reading.batch if reading.batch is not None and reading.batch < len(x) else None

    def loss(own: dict[str, Tensor], kept: dict[str, Tensor], seen: Tensor) -> Tensor:
        value: Tensor = functional_call(base, own | kept, (seen,))
        return value

    together = torch.vmap(loss, in_dims=(0, 0, None), randomness="different")

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        seen = x if size is None else x.index_select(0, torch.randint(len(x), (size,), device=x.device))
        # The sum over replicas: each one's gradient is that of its own mean.
        together(weights, buffers, seen).sum().backward()
        if reading.tenth:
            _clip(likelihood)
        optimizer.step()

    return step


def _clip(stacked: list[Tensor], most: float = 1.0) -> None:
    """Scale the gradients of every replica to a norm of at most one."""
    gradients = [weight.grad for weight in stacked if weight.grad is not None]
    squares = sum(gradient.flatten(1).square().sum(1) for gradient in gradients)
    factor = most / (torch.as_tensor(squares).sqrt() + 1e-6)
    for gradient in gradients:
        gradient.mul_(factor.clamp(max=1.0).view(-1, *[1] * (gradient.ndim - 1)))


def _take_steps(step: Callable[[], None], steps: int, place: torch.device) -> None:
    if place.type != "cuda":
        for _ in range(steps):
            step()
        return

    def bundle() -> None:
        for _ in range(BUNDLE):
            step()

    replay = captured(bundle)
    for _ in range(steps // BUNDLE - WARM):
        replay()
    torch.cuda.synchronize()
