"""Compiled code, where the wheel contains it (see hatch_build.py), and threads that run parts of it."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch

MIN_ELEMENTS_PER_THREAD = 1 << 16


def load(source: str) -> ctypes.CDLL | None:
    """The library of a source file, by its place in the package, for this processor; None where there is none."""
    stem = Path(__file__).parent / source
    for generation in (torch.backends.cpu.get_cpu_capability(), "DEFAULT"):
        try:
            return ctypes.CDLL(f"{stem}-{generation}.so")
        except OSError:  # not built, or for another system
            continue
    return None


def typed(function: Any, arguments: str, result: type | None = None) -> Any:
    """A C function with the types of its arguments, by the letters of :mod:`struct`."""
    types = {"i": ctypes.c_int, "q": ctypes.c_int64, "f": ctypes.c_float, "s": ctypes.c_char_p, "P": ctypes.c_void_p}
    function.argtypes, function.restype = [types[letter] for letter in arguments], result
    return function


_threads = cache(ThreadPoolExecutor)
if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_threads.cache_clear)


def workers_of(elements: int, unit: int) -> int:
    """The number of threads for a batch that can be divided at multiples of ``unit`` only."""
    return max(1, min(torch.get_num_threads(), elements // max(MIN_ELEMENTS_PER_THREAD, unit)))


def in_threads(run: Callable[[int, int, int], int | None], n: int, unit: int, workers: int) -> list[int | None]:
    """Run parts of n, each a multiple of ``unit``, in threads."""
    if workers == 1:
        return [run(0, n, 0)]
    ends = [n * k // workers // unit * unit for k in range(workers)] + [n]
    return list(_threads().map(run, ends[:-1], ends[1:], range(workers)))
