"""The benchmark of tables beyond memory: what it writes, and how it judges."""

from pathlib import Path

import pandas as pd

from experiments.benchmarks import blocks
from likely._rows.sources import source_of


def test_a_table_is_written_and_read_and_judged(tmp_path: Path) -> None:
    blocks.write_table(tmp_path, 1500, seed=0)
    source = source_of(tmp_path)
    assert source is not None
    assert (len(source), len(source.names or [])) == (1500, blocks.COLUMNS)
    assert {"seconds", "processor", "gigabytes"} == set(blocks.measured("threads", str(tmp_path)))
    assert 0 < blocks.measured("audit", str(tmp_path))["page"] < 1
    seconds = {"read": 1.0, "threads": 5.0, "1": 10.0, "2": 6.0, "audit": 500.0}
    found = pd.DataFrame({"seconds": seconds, "gigabytes": {"threads": 0.6}, "page": {"audit": 0.1}})
    assert [bar.met for bar in blocks.checks(found)] == [True] * 5
