"""Where the blocks of a table are computed: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from likely._rows.sources import naming_scheduler

ENGINES = ("threads", "dask")
_SECONDS = 10  # how long to wait for a scheduler


@contextmanager
def engine(name: str, scheduler: str | None) -> Iterator[None]:
    """Choose where tables in blocks are computed, for the duration of a context."""
    if name not in ENGINES:
        raise ValueError(f"--engine must be {' or '.join(ENGINES)}, got {name!r}")
    if scheduler is not None and name != "dask":
        raise ValueError("--scheduler needs --engine dask")
    if name == "threads":
        yield
        return
    try:
        import joblib
        from distributed import Client, KilledWorker
    except ImportError:
        raise ImportError("--engine dask needs distributed: pip install 'dask[distributed]'") from None
    where = scheduler or "this machine"
    try:
        client = (
            Client(scheduler, timeout=_SECONDS)
            if scheduler
            else Client(threads_per_worker=1, dashboard_address="127.0.0.1:0")
        )
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {where}: {str(error).splitlines()[0]}") from None
    try:
        with _quiet(), client, naming_scheduler(client), joblib.parallel_config("dask"):
            yield
    except KilledWorker as error:
        workers = f"{error.allowed_failures + 1} workers, the last at {error.last_worker.address}"
        raise ValueError(f"the same block ended {workers}: they may need more memory") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log off the terminal: what ends a command is one line."""
    handlers = logging.getLogger("distributed").handlers
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)
