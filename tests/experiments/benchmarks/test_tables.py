"""What `python -m experiments.benchmarks tables` compares is the same work, and what it cannot measure it says."""

import math

import pytest
import torch

from experiments.benchmarks import _table_networks, tables
from experiments.entries import Context


def test_every_way_moves_the_rows_it_drew(tmp_path):
    ways = tables.ways_to_step(500, tmp_path)
    assert {tables.OURS, tables.DENSE, tables.SPARSE} <= set(ways)
    for way in ways.values():
        way()


def test_a_small_billion(tmp_path):
    found = tables.billion_rows(tmp_path, touched=200_000)
    assert all(value > 0 for value in found.values())
    assert (tmp_path / "billion.table").stat().st_blocks * 512 < 10**8


def test_bars_of_a_quick_run(monkeypatch):
    monkeypatch.setattr(tables, "billion", lambda *_, **__: iter(()))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = tables.run(Context(quick=True))
    met = {bar.name: bar.met for bar in result.bars}
    assert met["GPU, VAE, a parameter a pixel, as a CUDA graph: the step of the plain loss"] is None
    assert any(math.isnan(bar.value) for bar in result.bars)
    assert "no GPU" in result.notes
    assert result.tables[0].frame["measured"].gt(0).all()


@pytest.mark.parametrize("network", _table_networks.NETWORKS)
def test_networks_train_with_every_loss(network):
    taken = _table_networks.seconds_of_steps(network, rows=9, batch=2, width=4, device="cpu", repeats=1)
    assert set(taken) == {"plain", *_table_networks.NETWORKS[network]}
    assert all(len(seconds) == 1 for seconds in taken.values())
