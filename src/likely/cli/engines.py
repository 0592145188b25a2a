"""Where the blocks of a table are computed: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

ENGINES = ("threads", "dask")
_SECONDS = 10  # how long to wait for a scheduler


@contextmanager
def engine(name: str, scheduler: str | None) -> Iterator[None]:
    """Choose where tables in blocks are computed, for the duration of a context.

    Args:
        name: "threads" or "dask".
        scheduler: address of a Dask scheduler, such as tcp://scheduler:8786, whose workers see the same files; None
            starts workers on this machine.

    Yields:
        None: the context has no value.

    Raises:
        ValueError: if there is no such engine, no scheduler at the address, or the connection to it is lost.
    """
    if name not in ENGINES:
        raise ValueError(f"--engine must be {' or '.join(ENGINES)}, got {name!r}")
    if scheduler is not None and name != "dask":
        raise ValueError("--scheduler needs --engine dask")
    if name == "threads":
        yield
        return
    try:
        import joblib
        from distributed import Client
    except ImportError:
        raise ImportError("--engine dask needs distributed: pip install 'dask[distributed]'") from None
    where = scheduler or "this machine"
    try:
        client = (
            Client(scheduler, timeout=_SECONDS) if scheduler else Client(threads_per_worker=1, dashboard_address=None)
        )
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {where}: {str(error).splitlines()[0]}") from None
    try:
        with client, joblib.parallel_config("dask"):
            yield
    except Exception as error:
        if not _is_dask_s(error):
            raise
        raise ValueError(
            f"the Dask scheduler at {where} was lost: {type(error).__name__}; nothing is written"
        ) from None


def _is_dask_s(error: BaseException) -> bool:
    """Whether an error is about the cluster, and not about what was computed on it."""
    kinds = (type(error), *(type(reason) for reason in (error.__cause__, error.__context__) if reason is not None))
    return any(kind.__module__.startswith("distributed") or kind.__name__ == "CancelledError" for kind in kinds)
