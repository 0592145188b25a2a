"""Training whose whole step is one CUDA graph: to pick pictures, move and classify them, and step, is one call.

A small network on a GPU mostly waits for the host to launch its next kernel; replaying a graph launches them all. That
asks for a step that reads nothing from the host. So what is random (which rows, how they are moved) and the rate of
every step are drawn beforehand, and a counter on the device says which step it is; a CPU takes the same steps, one by
one. ``training.train`` calls loss, backward pass and optimizer apart, and seeds every step from the host, which
no graph can replay: hence a loop of its own here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from experiments.data import Images
from experiments.paper._vision import half
from likely._solvers.training import Progress
from likely.optim import Supervised

# Of rows, and where the plan says so of how far each is moved and whether it is mirrored.
Loss = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
WARM = 3  # steps before the capture: libraries choose their kernels, optimizers make their state


class Plan(NamedTuple):
    """For every step: the rows it sees, how far each is moved and whether it is mirrored, and a factor of the rate."""

    rows: Tensor  # (steps, batch)
    shift: Tensor | None  # (steps, batch, 2): pixels down and right
    mirror: Tensor | None  # (steps, batch)
    factor: Tensor  # (steps,)

    def to(self, place: torch.device) -> Plan:
        """The same on a device."""
        return Plan(*(None if part is None else part.to(place) for part in self))  # type: ignore[arg-type]


def make_plan(
    rows: int, epochs: int, batch: int, seed: int, *, shift: int = 0, mirror: bool = False, cycle: bool = False
) -> Plan:
    """Every epoch in a new order, its last rows left out where they are too few for a batch.

    ``shift`` moves pictures by up to so many pixels, ``mirror`` turns half of them around, and with ``cycle`` the rate
    rises over the first quarter of the steps and then falls to zero; else it stays.

    >>> plan = make_plan(rows=10, epochs=2, batch=4, seed=0, shift=1)
    >>> tuple(plan.rows.shape), tuple(plan.shift.shape), plan.mirror
    ((4, 4), (4, 4, 2), None)
    """
    if rows < batch:
        raise ValueError(f"{rows} rows do not fill a batch of {batch}: take a smaller batch")
    draw = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(rows, generator=draw)[: rows // batch * batch] for _ in range(epochs)]
    order = torch.cat(orders).reshape(-1, batch)
    at = (torch.arange(len(order)) + 0.5) / len(order)
    rise = at / 0.25
    fall = (1 + torch.cos(math.pi * (at - 0.25) / 0.75)) / 2
    return Plan(
        order,
        torch.randint(-shift, shift + 1, (*order.shape, 2), generator=draw) if shift else None,
        torch.rand(order.shape, generator=draw) < 0.5 if mirror else None,
        torch.where(at < 0.25, rise, fall) if cycle else torch.ones(len(order)),
    )


def make_optimizer(
    kind: type[torch.optim.Adam] | type[torch.optim.AdamW], groups: Iterable[dict[str, Any]], **options: Any
) -> torch.optim.Optimizer:
    """Adam or AdamW in one kernel; its rates are tensors where the weights are, which a replayed step can set."""
    groups = list(groups)
    place = groups[0]["params"][0].device
    optimizer = kind(groups, fused=True, capturable=place.type == "cuda", **options)
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"], device=place)
    return optimizer


class Step:
    """One step of training, all of whose inputs lie on the device: call it to take the next of the plan."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, plan: Plan, loss: Loss) -> None:
        self.place = next(model.parameters()).device
        self.model, self.optimizer, self.plan, self.loss = model, optimizer, plan.to(self.place), loss
        self.rates = [(group["lr"], group["lr"].clone()) for group in optimizer.param_groups]
        self.number = torch.zeros(1, dtype=torch.long, device=self.place)
        self.value = torch.zeros((), device=self.place)  # of the loss, in the last step
        self.taken = 0
        self.graph: Callable[[], None] | None = None  # takes a step by replaying it

    def __call__(self) -> None:
        rows, shift, mirror, factor = (
            None if part is None else part.index_select(0, self.number)[0] for part in self.plan
        )
        assert rows is not None
        assert factor is not None
        for rate, full in self.rates:
            rate.copy_(factor * full)
        self.optimizer.zero_grad(set_to_none=True)
        with half(self.place):
            value = self.loss(rows, shift, mirror)
        value.backward()
        self.optimizer.step()
        self.value.copy_(value.detach())
        self.number.add_(1)


def loss_on(images: Images, model: Supervised) -> Loss:
    """The loss of a classifier on rows of these images, which go where the model is."""
    place = next(model.parameters()).device
    pixels, labels = torch.from_numpy(images.pixels).to(place), torch.from_numpy(images.labels).to(place)

    def loss(rows: Tensor, shift: Tensor | None, mirror: Tensor | None) -> Tensor:
        value: Tensor = model(moved(pixels, rows, shift, mirror), labels.index_select(0, rows), index=rows)
        return value

    return loss


def moved(pixels: Tensor, rows: Tensor, shift: Tensor | None = None, mirror: Tensor | None = None) -> Tensor:
    """These rows of the pictures, mirrored and moved; what comes in from outside is the reflection of the inside.

    >>> pictures = torch.arange(3).reshape(1, 1, 3, 1)
    >>> moved(pictures, torch.tensor([0]), torch.tensor([[0, 1]])).flatten()
    tensor([1, 2, 1])
    """
    if shift is None and mirror is None:
        return pixels.index_select(0, rows)
    down, right = (torch.arange(side, device=pixels.device).expand(len(rows), -1) for side in pixels.shape[1:3])
    if mirror is not None:
        right = torch.where(mirror[:, None], right.flip(1), right)
    if shift is not None:
        down, right = _inside(down + shift[:, :1], pixels.shape[1]), _inside(right + shift[:, 1:], pixels.shape[2])
    return pixels[rows[:, None, None], down[:, :, None], right[:, None]]


def _inside(places: Tensor, side: int) -> Tensor:
    places = places.abs()
    return torch.where(places < side, places, 2 * (side - 1) - places)


def take_steps(
    step: Step, look: Callable[[Progress], Any] = lambda _: None, *, every: int = 100, until: int | None = None
) -> int:
    """Take the steps of the plan, or those up to one, by replaying a graph where there is a GPU; how many were taken.

    ``look`` is called after every so many steps and after the last; where it returns True the training ends.
    """
    total = len(step.plan.factor)
    last = total if until is None else min(until, total)
    step.model.train()
    with _fastest_convolutions():
        if step.graph is None and step.place.type == "cuda" and last - step.taken > WARM:
            step.graph = captured(step)
            step.taken += WARM
        while step.taken < last:
            (step.graph or step)()
            step.taken += 1
            at_look = step.taken % every == 0 or step.taken == last
            if at_look and look(Progress(step.taken, total, float(step.value), ())):
                break
    step.model.eval()
    return step.taken


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """Do the work so many times as it takes to warm up; then what replays a graph of it, or where none can be made it.

    The capture itself does nothing.
    """
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    try:
        with torch.cuda.graph(graph, stream=stream):
            work()
    except RuntimeError as error:
        print(f"no graph could be made, so every step is launched from the host: {error}", flush=True)
        torch.cuda.synchronize()
        return work
    return graph.replay


@contextmanager
def _fastest_convolutions() -> Iterator[None]:
    """Let cuDNN try its algorithms on the first batch: all batches have one shape."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
