"""A Dask scheduler in a process of its own, which tests can end while it has work."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Worker
from distributed.utils import LoopRunner


class Scheduler:
    """A scheduler with one worker, whose threads are those of this process: they need no time to start."""

    def __init__(self, address: str, pid: int) -> None:
        self.address, self.pid = address, pid

    def end(self) -> None:
        """End the process, as a machine ends that loses its power."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Ends:
    """A function of blocks that ends the scheduler, and returns its block."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def __call__(self, block: Any) -> Any:
        self.scheduler.end()
        return block


@contextmanager
def scheduler_of_one_worker(folder: Path) -> Iterator[Scheduler]:
    """Start a scheduler and a worker of two threads."""
    told = folder / "scheduler.json"
    words = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(told))
    process = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", *words])
    try:
        while not told.exists() or not told.read_text().endswith("}"):
            assert process.poll() is None, "the scheduler did not start"
            time.sleep(0.05)
        scheduler = Scheduler(json.loads(told.read_text())["address"], process.pid)
        runner = LoopRunner()
        runner.start()
        worker = runner.run_sync(_worker, scheduler.address, folder)
        try:
            yield scheduler
        finally:
            runner.run_sync(worker.close, timeout=1)
            runner.stop()
    finally:
        process.kill()
        process.wait()


async def _worker(address: str, folder: Path) -> Worker:
    return await Worker(address, nthreads=2, dashboard=False, local_directory=str(folder))
