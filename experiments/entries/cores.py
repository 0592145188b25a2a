"""Not more threads than help: one thread also sums in one order on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread in torch: small matrices only wait for each other in several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_core() -> Iterator[None]:
    """One thread in torch and in the linear algebra of NumPy and SciPy."""
    with one_thread(), threadpool_limits(limits=1):
        yield
