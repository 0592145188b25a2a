"""Does a table beyond memory cost what reading it costs? The default detector and the audit on Parquet."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks._bars import result_of
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table

COLUMNS = 20
ROWS = 20_000_000
FILE = 1_000_000  # rows of a file
MOST_TIME, MOST_MEMORY, LEAST_GAIN = 3.0, 1.0, 1.6  # times the time to read; GB; times as fast by two workers
MOST_MINUTES, MOST_PAGE = 10.0, 5.0  # of the audit; MB of its page
# Each in a process of its own, so that the memory is its own: what was measured is the last line it prints.
_CHILD = """
import json, re, sys, tempfile, time
from pathlib import Path
way, folder = sys.argv[1:]
from likely.auditing import audit
from likely.outliers import LikelihoodDetector
import pyarrow.dataset

def timed(run):
    wall, own = time.perf_counter(), time.process_time()
    size = run()
    found = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - own}
    return found if size is None else {**found, "page": size / 1e6}

def read():
    for batch in pyarrow.dataset.dataset(folder).to_batches():
        pass

def both():
    LikelihoodDetector(random_state=0).fit(folder).outlier_score(folder)

def ready():
    import likely.outliers, pandas, pyarrow.dataset

def page():
    with tempfile.TemporaryDirectory() as out:
        return audit(folder).save(out).stat().st_size

if __name__ == "__main__":
    if way in ("read", "threads", "audit"):
        found = timed({"read": read, "threads": both, "audit": page}[way])
    else:
        import joblib
        from distributed import Client, LocalCluster
        workers = int(way)
        options = dict(n_workers=workers, threads_per_worker=1, memory_limit="1GB", dashboard_address=":0")
        with LocalCluster(**options) as cluster, Client(cluster) as client, joblib.parallel_config(backend="dask"):
            client.run(ready)  # what a process imports is not timed, here as in this one
            found = timed(both)
    # Not getrusage, which counts what the process that started this one had in memory.
    found["gigabytes"] = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 2**20
    print(json.dumps(found))
"""


def run(context: Context) -> Result:
    """Write a table, read it, fit and score it by threads and by one and two workers, and audit it."""
    rows = 60_000 if context.quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder), rows, context.seed)
        ways = ["read", "threads", "1", "2", "audit"]
        found = []
        for done, way in enumerate(ways, start=1):
            found.append({"way": way, **measured(way, folder)})
            context.progress(done / len(ways))
    return result_of(checks(pd.DataFrame(found).set_index("way")), [_table(found, rows)])


def write_table(folder: Path, rows: int, seed: int) -> None:
    """Write normal rows of columns that depend on each other, as float32, in files of a million."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(COLUMNS, COLUMNS)).astype(np.float32) / 4
    for number, start in enumerate(range(0, rows, FILE)):
        size = (min(FILE, rows - start), COLUMNS)
        x = rng.standard_normal(size, dtype=np.float32) @ mixing + 0.3 * rng.standard_normal(size, dtype=np.float32)
        table = pa.table({f"x{place}": np.ascontiguousarray(column) for place, column in enumerate(x.T)})
        parquet.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=FILE // 8)


def measured(way: str, folder: str) -> dict[str, Any]:
    """Return seconds, seconds of the processor and gigabytes of one way in a process of its own, and MB of a page."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(_CHILD)
        script.flush()
        told = subprocess.run(
            [sys.executable, script.name, way, folder], capture_output=True, text=True, check=True
        ).stdout
    return json.loads(told.splitlines()[-1])


def checks(found: pd.DataFrame) -> Iterator[Bar]:
    """The bars of the default detector and of the audit on files."""
    reads = 2 * found["seconds"]["read"]  # the fit reads all rows once for its sample, and so do the scores
    yield Bar("fit and score, times the time to read as often", found["seconds"]["threads"] / reads, "≤", MOST_TIME)
    yield Bar("memory of fit and score", found["gigabytes"]["threads"], "≤", MOST_MEMORY, "GB")
    yield Bar("two workers, times as fast as one", found["seconds"]["1"] / found["seconds"]["2"], "≥", LEAST_GAIN)
    yield Bar("audit", found["seconds"]["audit"] / 60, "≤", MOST_MINUTES, "minutes")
    yield Bar("page of the audit", found["page"]["audit"], "≤", MOST_PAGE, "MB")


def _table(found: list[dict[str, Any]], rows: int) -> Table:
    names = {
        "read": "reading by pyarrow, once",
        "threads": "fit and score, threads",
        "1": "fit and score, one Dask worker",
        "2": "fit and score, two Dask workers",
        "audit": "audit, threads",
    }
    shown = pd.DataFrame(found).set_index("way").drop(columns="page")
    # Of workers, only the process that asks is measured.
    shown.loc[["1", "2"], "processor"] = np.nan
    shown["processor, times reading as often"] = shown["processor"] / (2 * shown["processor"]["read"])
    shown.loc[["read", "audit"], "processor, times reading as often"] = np.nan
    shown.index = pd.Index([names[way] for way in shown.index], name="way")
    shown["hours per billion rows, extrapolated"] = shown["seconds"] * 1e9 / rows / 3600
    caption = f"{rows:,} rows × {COLUMNS} columns of float32 in Parquet; most memory of the process that asks."
    return Table(shown, caption, {}, digits=3)
