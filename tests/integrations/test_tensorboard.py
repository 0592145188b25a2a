"""TensorBoard's files hold what the parameters are."""

import pytest
import torch

import likely
from likely.integrations.tensorboard import log_parameters


class Kept:
    def __init__(self):
        self.scalars, self.histograms = {}, {}

    def add_scalar(self, tag, value, step):
        self.scalars[tag, step] = value

    def add_histogram(self, tag, values, step):
        self.histograms[tag, step] = values


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_summary_writer_keeps_them(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    loss_fn = likely.RobustLoss(alpha=likely.Global(init=1.5), scale=likely.Data(50, init=2.0))
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            log_parameters(writer, loss_fn, step)
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in found.Scalars("likelihood/alpha")] == [(i, pytest.approx(1.5)) for i in range(3)]
    histogram = found.Histograms("likelihood/scale")[-1].histogram_value
    assert histogram.num == 50
    assert histogram.sum == pytest.approx(100, rel=1e-5)


def test_every_kind_has_its_form():
    kept, h = Kept(), torch.randn(7, 4)
    losses = {
        "one": likely.NormalLoss(),
        "several": likely.NormalLoss(scale=likely.Global((3,))),
        "rows": likely.SoftmaxLoss(temperature=likely.Data(5)),
        "read": likely.LaplaceLoss(scale=likely.Predicted(4)),
        "fixed": likely.NormalLoss(scale=2.0),
    }
    loss_fn = likely.MultiTaskLoss(losses)
    log_parameters(kept, loss_fn, 9, features=h, prefix="phi")
    assert kept.scalars == {("phi/losses.one.scale", 9): 1.0}
    assert {tag: len(values) for (tag, _), values in kept.histograms.items()} == {
        "phi/losses.several.scale": 3,
        "phi/losses.rows.temperature": 5,
        "phi/losses.read.scale": 7,
    }
    read = losses["read"].scale
    assert read.training
    assert read.normalizer.batches == 0  # looking leaves the running moments alone
    torch.testing.assert_close(kept.histograms["phi/losses.read.scale", 9], read.eval()(features=h))


def test_predicted_parameters_without_features_are_left_out():
    kept = Kept()
    log_parameters(kept, likely.NormalLoss(scale=likely.Predicted(4)), 0)
    assert not kept.scalars
    assert not kept.histograms


def test_long_tables_are_thinned(monkeypatch):
    monkeypatch.setattr("likely.integrations.tensorboard._MOST", 100)
    kept = Kept()
    log_parameters(kept, likely.NormalLoss(scale=likely.Data(1001)), 0)
    assert len(kept.histograms["likelihood/scale", 0]) == 91
