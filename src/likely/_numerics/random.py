"""Draws that follow from a seed alone, whatever else draws in this process.

torch has one global generator for all threads. Two fits that seed it at the same time get each other's numbers, and
the caller's own draws change. Here every draw comes from a generator that belongs to one fit: own code asks for it by
:func:`generator`, and everybody else's (``nn.Linear``, ``nn.Dropout``, ``torch.rand``) is given it by :class:`Seeded`.
"""

import threading
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

COINS = 2**20
_local = threading.local()
_global = threading.Lock()


class Seeded:
    """Inside, this thread draws from generators of its own; torch's global generator is neither read nor moved.

    :func:`generator` returns them. With ``all_draws`` every other random operation of torch in this thread is given
    them too. That costs some microseconds per operation of any kind, so a loop may ask ``drew`` after its first step
    whether it is needed.

    >>> import torch
    >>> from likely._numerics.random import Seeded
    >>> before = torch.get_rng_state()
    >>> with Seeded(0):
    ...     first = torch.nn.Linear(3, 2).weight
    >>> with Seeded(0):
    ...     second = torch.nn.Linear(3, 2).weight
    >>> torch.equal(first, second), torch.equal(before, torch.get_rng_state())
    (True, True)
    """

    def __init__(self, seed: int, *, all_draws: bool = True) -> None:
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}
        self._redirect = _Redirect(self) if all_draws else None
        self.drew = False

    def seed(self, seed: int) -> None:
        """Start the generators again."""
        self._seed = seed
        for source in self._generators.values():
            source.manual_seed(seed)

    def only_asked(self) -> None:
        """From the next ``with`` on, redirect nothing: only those who ask get a generator."""
        self._redirect = None

    def on(self, device: torch.device) -> torch.Generator:
        """The generator of a device."""
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]

    def __enter__(self) -> Self:
        self._before = getattr(_local, "current", None)
        _local.current = self
        self._entered = self._redirect
        if self._entered is not None:
            self._entered.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._entered is not None:
            self._entered.__exit__(*error)
        _local.current = self._before


def generator(device: torch.device | str = "cpu") -> torch.Generator | None:
    """This thread's own generator; outside :class:`Seeded` None, which stands for torch's global one."""
    current: Seeded | None = getattr(_local, "current", None)
    return None if current is None else current.on(torch.device(device))


class _Redirect(TorchDispatchMode):
    """Gives every random operation of this thread a generator."""

    def __init__(self, owner: Seeded) -> None:
        super().__init__()
        self.owner = owner

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()) or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        self.owner.drew = True
        first = args[0] if args and isinstance(args[0], Tensor) else None
        source = self.owner.on(torch.device(kwargs.get("device") or (first.device if first is not None else "cpu")))
        taking = _taking_a_generator(func)
        if taking is not None:
            return taking(*args, **{**kwargs, "generator": source})
        # An operation that takes no generator, such as fused dropout: lend it the global one.
        with _global, torch.random.fork_rng(devices=[source.device] if source.device.type == "cuda" else []):
            torch.manual_seed(int(torch.randint(2**62, (), generator=source, device=source.device)))
            return func(*args, **kwargs)


@cache
def _taking_a_generator(func: Any) -> Any:
    """The operation itself, or the overload of it that differs by a generator."""
    names = {argument.name for argument in func._schema.arguments}
    if "generator" in names:
        return func
    for overload in func.overloadpacket.overloads():
        other = getattr(func.overloadpacket, overload)
        if {argument.name for argument in other._schema.arguments} == names | {"generator"}:
            return other
    return None


class CheapDropout(nn.Module):
    """Dropout, whose coins are thrown once and read from another place every time.

    Throwing them anew takes longer than a small network's layer.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with a share of its numbers at zero in training."""
        if not self.training or self.p == 0:
            return x
        numbers = x.numel()
        if x.device.type != "cpu" or 2 * numbers > COINS:
            kept = torch.empty_like(x).bernoulli_(1 - self.p, generator=generator(x.device))
            return x * kept.div_(1 - self.p)
        start = int(torch.randint(COINS - numbers, (), generator=generator()))
        return x * _coins(self.p)[start : start + numbers].view(x.shape)


@cache
def _coins(p: float) -> Tensor:
    """Zero, or what keeps the mean."""
    heads = torch.rand(COINS, generator=torch.Generator().manual_seed(0)) >= p
    return heads.float() / (1 - p)
