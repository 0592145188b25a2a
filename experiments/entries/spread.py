"""Entries side by side, on the cores of one machine or on several machines, through joblib."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import NamedTuple

from experiments.entries.entry import Context, Entry, _silent
from experiments.entries.record import Record, run_entry

BACKENDS = ("loky", "dask", "ray")  # of processes: entries that share one would share its random numbers
HERE = "127.0.0.1"  # a machine need not know its own name
_TURN = threading.Lock()


class Outcome(NamedTuple):
    """The record of an entry and the seconds it took."""

    entry: Entry
    record: Record
    seconds: float


@dataclass(frozen=True)
class Spread:
    """How many entries at a time, by which backend of joblib, and the address of a cluster where there is one.

    >>> Spread().alone, Spread(jobs=-1).alone, Spread(backend="dask").alone
    (True, False, False)
    """

    jobs: int = 1
    backend: str = "loky"
    scheduler: str | None = None

    @property
    def alone(self) -> bool:
        """Whether one entry runs after the other, in this process."""
        return self.jobs == 1 and self.backend == "loky"


def one(entry: Entry, context: Context, command: str) -> Outcome:
    """Run an entry on one core, so that its sums have the same order wherever it runs."""
    from experiments.entries.cores import one_core  # which loads torch

    # A worker of a cluster may have threads, which share torch's generator and its number of threads.
    with _TURN, one_core():
        started = time.perf_counter()
        record = run_entry(entry, context, command)
        return Outcome(entry, record, time.perf_counter() - started)


def side_by_side(
    entries: Sequence[Entry], context: Context, command: Callable[[Entry], str], spread: Spread
) -> Iterator[Outcome]:
    """Run the entries, giving each outcome as soon as it is there.

    Those that are timed come last, one by one, unless the run is quick, which judges no time.
    """
    from joblib import Parallel, delayed

    # Other processes may have other working folders, and no bar.
    quiet = replace(context, progress=_silent, data=context.data and context.data.resolve())
    together = [entry for entry in entries if context.quick or not entry.timed]
    with _backend(spread):
        work = (delayed(one)(entry, quiet, command(entry)) for entry in together)
        # Ray's backend hands over all outcomes at the end or none.
        as_they_come = "list" if spread.backend == "ray" else "generator_unordered"
        yield from Parallel(return_as=as_they_come, batch_size=1, pre_dispatch="all")(work)
    for entry in entries:
        if entry not in together:
            yield one(entry, quiet, command(entry))


@contextmanager
def _backend(spread: Spread) -> Iterator[None]:
    from joblib import parallel_config

    with ExitStack() as opened:
        if spread.backend == "dask":
            opened.enter_context(parallel_config("dask", n_jobs=-1, client=_client(spread, opened)))
        elif spread.backend == "ray":
            import_module("ray").init(spread.scheduler, ignore_reinit_error=True)
            import_module("ray.util.joblib").register_ray()
            opened.enter_context(parallel_config("ray", n_jobs=spread.jobs))
        else:
            # loky replaces a worker that has grown, and warns; entries load large libraries, so some do grow.
            opened.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            opened.enter_context(parallel_config("loky", n_jobs=spread.jobs, inner_max_num_threads=1))
        yield


def _client(spread: Spread, opened: ExitStack) -> object:
    """Of the cluster at the address given, else of one on this machine."""
    from distributed import Client, LocalCluster
    from joblib import cpu_count

    address: object = spread.scheduler
    if address is None:
        workers = spread.jobs if spread.jobs > 0 else cpu_count()
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host=HERE,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        )
        address = opened.enter_context(cluster)
    return opened.enter_context(Client(address))
