"""A scale at its floor and a temperature that runs away: one warning, with its remedy, and at no cost between looks."""

import copy
import pickle
import warnings

import pytest
import torch

import likely
from likely._training_checks import STEPS_BETWEEN_CHECKS as EVERY
from likely.integrations.monitor import LikelihoodMonitor

AT_FLOOR = {**likely.paper.SCALE, "init": 0.0143}  # of that constraint: .01422


def steps(loss_fn, count, rows=32, **extras):
    """Forward passes of a training loop."""
    x, y = torch.ones(rows, 3), torch.randint(0, 3, (rows,))
    y = y if isinstance(loss_fn, likely.SoftmaxLoss) else x
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(count):
            loss_fn(x, y, **extras)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("loss_fn", "extras", "said"),
    [
        (likely.NormalLoss(likely.Global(**AT_FLOOR)), {}, "scale of NormalLoss lies at the floor 0.01422"),
        (
            likely.LaplaceLoss(likely.Data(32, **AT_FLOOR)),
            {"index": torch.arange(32)},
            "scale of LaplaceLoss lies at",
        ),
        (
            likely.NormalLoss(likely.Predicted(2, **AT_FLOOR)),
            {"features": torch.randn(32, 2)},
            "scale of NormalLoss lies at the floor",
        ),
        (likely.NormalLoss(likely.Global(init=1e-7)), {}, "scale of NormalLoss has fallen to 1e-07"),
        (likely.SoftmaxLoss(likely.Global(init=500.0)), {}, "temperature of SoftmaxLoss has grown to 500"),
        (likely.SoftmaxLoss(likely.Global(init=1e-3)), {}, "temperature of SoftmaxLoss has fallen to 0.001"),
        (
            likely.SoftmaxLoss(likely.Global(init=0.225, constraint=likely.paper.TEMPERATURE["constraint"])),
            {},
            "temperature of SoftmaxLoss lies at the floor 0.2239",
        ),
    ],
)
def test_one_warning_per_loss(loss_fn, extras, said):
    assert steps(loss_fn, EVERY - 1, **extras) == []
    (message,) = steps(loss_fn, 3 * EVERY, **extras)
    assert message.startswith(said)
    assert "hold" in message


@pytest.mark.parametrize(
    ("loss_fn", "extras"),
    [
        (likely.NormalLoss(), {}),
        (likely.NormalLoss(scale=1e-3), {}),  # the user's choice
        (likely.NormalLoss(likely.Global(init=1e6)), {}),  # targets in millions
        (likely.NormalLoss(likely.Global(init=1e-3)), {}),  # nor in thousandths
        (likely.NormalLoss(likely.Global(**AT_FLOOR), validate_args=False), {}),
        (likely.NormalLoss(likely.Data(32, **AT_FLOOR)), {"index": torch.arange(4), "rows": 4}),  # a few good rows
        (likely.NormalLoss(likely.Global(**AT_FLOOR)).eval(), {}),
    ],
)
def test_silence_where_nothing_is_wrong(loss_fn, extras):
    assert steps(loss_fn, 2 * EVERY, **extras) == []


def test_a_training_that_diverges_is_noticed():
    """Labels that nothing predicts, from a network that is sure of itself: the temperature grows without end."""
    torch.manual_seed(0)
    loss_fn = likely.SoftmaxLoss()
    optimizer = torch.optim.Adam(loss_fn.parameters(), lr=1.0)
    logits, target = 200 * torch.randn(64, 5), torch.randint(0, 5, (64,))

    def training():
        for _ in range(EVERY):
            optimizer.zero_grad()
            loss_fn(logits, target).backward()
            optimizer.step()

    with pytest.warns(UserWarning, match=r"temperature of SoftmaxLoss has grown to .*lower its learning rate"):
        training()


def test_copies_and_pickles_keep_working():
    loss_fn = likely.NormalLoss(likely.Global(**AT_FLOOR))
    assert len(steps(loss_fn, EVERY)) == 1
    for again in (copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))):
        assert steps(again, 2 * EVERY) == []


class TestMonitor:
    def test_reports_every_few_steps(self):
        logged = []
        loss_fn = likely.MultiTaskLoss(
            {"a": likely.NormalLoss(), "b": likely.NormalLoss(scale=likely.Data(9, init=2.0))}
        )
        both = {"a": torch.zeros(2), "b": torch.zeros(2)}
        with LikelihoodMonitor(loss_fn, every_n_steps=3, log=lambda n, step: logged.append((step, n))) as monitor:
            returned = []
            for _ in range(7):
                loss_fn(both, both, index=torch.tensor([0, 1]))
                returned.append(monitor.step())
        assert [step for step, _ in logged] == [3, 6]
        assert [bool(numbers) for numbers in returned] == [False, False, True, False, False, True, False]
        assert logged[0][1] == pytest.approx(
            {
                "likelihood/losses.a.scale": 1.0,
                **{f"likelihood/losses.b.scale/{kind}": 2.0 for kind in ("mean", "min", "max")},
            }
        )
        assert not any(part._forward_hooks for part in loss_fn.modules())

    def test_warns_once_of_each(self):
        loss_fn = likely.SoftmaxLoss(likely.Global(init=300.0))
        monitor = LikelihoodMonitor(loss_fn, every_n_steps=1)
        with pytest.warns(UserWarning, match="temperature has grown to 300"):
            monitor.step()
        for _ in range(5):
            monitor.step()

    def test_refuses_what_does_not_learn(self):
        with pytest.raises(ValueError, match="NormalLoss has no likelihood parameter that learns"):
            LikelihoodMonitor(likely.NormalLoss(scale=1.0))
        with pytest.raises(TypeError, match="loss_fn must be a loss module"):
            LikelihoodMonitor("scale")
        with pytest.raises(ValueError, match="every_n_steps must be > 0"):
            LikelihoodMonitor(likely.NormalLoss(), every_n_steps=0)
