"""Lightning's Trainer trains φ, keeps it in checkpoints and hears when it collapses."""

import copy
import functools
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import likely

pytest.importorskip("lightning")
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.logger import Logger

from likely.integrations.lightning import LikelihoodModule, LikelihoodMonitor

# Lightning would have workers and validation rows, and torch deprecates what it calls.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),
    pytest.mark.filterwarnings("ignore:.*have no `val_dataloader`.*"),
    pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint.*"),
]


class Kept(Logger):
    """A logger that remembers."""

    name, version = "kept", 0

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_hyperparams(self, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))


def trainer(**options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return Trainer(**{**quiet, "enable_model_summary": False, "accelerator": "cpu", "log_every_n_steps": 4, **options})


def rows(n=64, noise=0.3):
    x = torch.randn(n, 3)
    return TensorDataset(x, x[:, :1] + noise * torch.randn(n, 1))


def loader(data, batch=16, **options):
    return DataLoader(data, batch_size=batch, **options)


def network():
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))


def test_a_scale_is_learned_as_by_hand():
    data = rows()
    model, loss_fn = nn.Linear(3, 1), likely.NormalLoss()
    start = {k: v.clone() for k, v in nn.ModuleList([model, loss_fn]).state_dict().items()}
    module = LikelihoodModule(model, loss_fn, lr=0.05, clip=None, optimizer=torch.optim.SGD)
    fitter = trainer(max_epochs=5)
    fitter.fit(module, loader(data), loader(data))
    assert {"train_loss", "val_loss"} <= set(fitter.callback_metrics)

    by_hand = nn.ModuleList([nn.Linear(3, 1), likely.NormalLoss()])
    by_hand.load_state_dict(start)
    optimizer = torch.optim.SGD(likely.param_groups(*by_hand, lr=0.05))
    for _ in range(5):
        for x, y in loader(data):
            optimizer.zero_grad()
            by_hand[1](by_hand[0](x), y).backward()
            optimizer.step()
    torch.testing.assert_close(loss_fn.scale.raw, by_hand[1].scale.raw)
    torch.testing.assert_close(model.weight, by_hand[0].weight)
    assert loss_fn.scale.raw != start["1.scale.raw"]


def test_the_likelihoods_gradient_is_clipped_in_time():
    """A step of SGD at rate 1 moves raw by its gradient, which is far longer than the clip."""
    data = TensorDataset(torch.zeros(4, 3), torch.full((4, 1), 100.0))
    loss_fn = likely.NormalLoss(likely.Global(init=1.0))
    module = LikelihoodModule(
        nn.Linear(3, 1), loss_fn, lr=1e-6, multiplier=1e6, clip=0.5, optimizer=functools.partial(torch.optim.SGD)
    )
    before = loss_fn.scale.raw.item()
    trainer(max_steps=1).fit(module, loader(data))
    assert loss_fn.scale.raw.item() - before == pytest.approx(0.5)


@pytest.mark.parametrize("features", ["1", lambda x: torch.cat([x, x, x[:, :2]], 1)], ids=["layer", "function"])
def test_features_reach_predicted_parameters(features):
    loss_fn = likely.NormalLoss(scale=likely.Predicted(8, (1,)))
    module = LikelihoodModule(network(), loss_fn, lr=0.01, features=features)
    before = loss_fn.scale.net[0].weight.clone()
    fitter = trainer(max_epochs=1)
    fitter.fit(module, loader(rows()), loader(rows()))
    assert not torch.equal(before, loss_fn.scale.net[0].weight)
    found = fitter.predict(module, loader(rows()))
    assert [d.scale.shape for d in found] == [(16, 1)] * 4


def test_unknown_batches_say_what_to_do():
    module = LikelihoodModule(nn.Linear(3, 1), likely.NormalLoss())
    with pytest.raises(TypeError, match="override LikelihoodModule"):
        module.training_step({"x": 1}, 0)


def indexed_module():
    loss_fn = likely.NormalLoss(scale=likely.Data(64, (1,), fallback="mean"))
    return LikelihoodModule(nn.Linear(3, 1), loss_fn, lr=0.01)


def test_checkpoints_hold_the_rows_of_data_parameters(tmp_path):
    module, data = indexed_module(), likely.IndexedDataset(rows())
    unbroken = copy.deepcopy(module)
    saving = ModelCheckpoint(dirpath=tmp_path, filename="last")
    trainer(max_epochs=2, enable_checkpointing=True, callbacks=[saving]).fit(module, loader(data), loader(data))
    learned = module.loss_fn.scale.value
    assert learned.std() > 0

    fresh = indexed_module()
    loaded = LikelihoodModule.load_from_checkpoint(
        tmp_path / "last.ckpt", model=fresh.model, loss_fn=fresh.loss_fn, weights_only=True
    )
    assert loaded.hparams.lr == 0.01
    torch.testing.assert_close(loaded.loss_fn.scale.value, learned, rtol=0, atol=0)

    # Going on from the checkpoint ends where an unbroken run ends, optimizer and mean squares included.
    trainer(max_epochs=4).fit(loaded, loader(data), ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    trainer(max_epochs=4).fit(unbroken, loader(data))
    torch.testing.assert_close(loaded.loss_fn.scale.value, unbroken.loss_fn.scale.value, rtol=0, atol=0)
    assert not torch.equal(loaded.loss_fn.scale.value, learned)


def test_ddp_is_told_to_leave_tables_alone():
    named = indexed_module()._ddp_params_and_buffers_to_ignore
    buffers = dict(indexed_module().named_buffers())
    assert named
    assert set(named) <= set(buffers)


class TwoScales(nn.Module):
    """A loss of a user's own with all three kinds."""

    def __init__(self):
        super().__init__()
        self.shared = likely.NormalLoss()
        self.own = likely.NormalLoss(scale=likely.Data(64, (1,)))
        self.read = likely.LaplaceLoss(scale=likely.Predicted(3, (1,)))

    def forward(self, prediction, target, **extras):
        return sum(loss(prediction, target, **extras) for loss in (self.shared, self.own, self.read))


def test_the_monitor_logs_every_kind():
    kept, data = Kept(), likely.IndexedDataset(rows())
    module = LikelihoodModule(nn.Linear(3, 1), TwoScales(), features="input")
    fitter = trainer(max_epochs=3, logger=kept, callbacks=[LikelihoodMonitor(every_n_steps=5)])
    fitter.fit(module, loader(data))
    found = [(step, row) for step, row in kept.rows if "likelihood/shared.scale" in row]
    assert [step for step, _ in found] == [5, 10, 12]
    last = found[-1][1]
    assert last["likelihood/shared.scale"] == pytest.approx(module.loss_fn.shared.scale.value.item())
    for kind in ("own", "read"):
        low, mean, high = (last[f"likelihood/{kind}.scale/{which}"] for which in ("min", "mean", "max"))
        assert 0 < low < mean < high
    assert not any(parameter._forward_hooks for parameter in module.loss_fn.modules())


def test_the_monitor_warns_once_of_a_scale_at_its_floor(tmp_path):
    x = torch.randn(32, 3)
    loss_fn = likely.NormalLoss(scale=likely.Global(**{**likely.paper.SCALE, "init": 0.0143}))
    module = LikelihoodModule(nn.Linear(3, 1), loss_fn, lr=1e-9)
    fitter = trainer(
        max_epochs=4, logger=CSVLogger(tmp_path), callbacks=[LikelihoodMonitor(every_n_steps=1)], barebones=False
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitter.fit(module, loader(TensorDataset(x, x[:, :1])))
    ours = [str(w.message) for w in caught if "floor" in str(w.message)]
    assert len(ours) == 1
    assert ours[0].startswith("scale lies at the floor 0.01422")


def test_the_monitor_warns_of_what_is_not_finite():
    data = TensorDataset(torch.zeros(4, 3), torch.full((4, 1), torch.nan))
    loss_fn = likely.NormalLoss(validate_args=False)
    module = LikelihoodModule(nn.Linear(3, 1), loss_fn)
    with pytest.warns(UserWarning, match="scale is not finite"):
        trainer(max_epochs=1, callbacks=[LikelihoodMonitor(every_n_steps=1)]).fit(module, loader(data))
