"""Each mistake a one-line error that names the argument and the remedy."""

import pytest
import torch
from torch import nn

import likely
from likely import functional as F
from pairwise import together

x, y = torch.zeros(4), torch.ones(4)
logits, labels = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])
nan = float("nan")


def predicted(**options):
    return likely.NormalLoss(scale=likely.Predicted(5, **options))


def data():
    return likely.NormalLoss(scale=likely.Data(6))


MISTAKES = {
    "prediction and target of different shapes": (
        lambda: likely.NormalLoss()(torch.zeros(4, 1), y),
        ValueError,
        r"prediction has shape \(4, 1\) and target \(4,\): reshape",
    ),
    "shapes that do not broadcast": (
        lambda: F.normal_nll(x, y, scale=torch.ones(3)),
        ValueError,
        r"do not broadcast: prediction \(4,\), target \(4,\), scale \(3,\)",
    ),
    "integer prediction": (
        lambda: likely.NormalLoss()(x.long(), y),
        TypeError,
        r"prediction.*call prediction.float\(\)",
    ),
    "integer logits": (lambda: F.softmax_nll(logits.long(), labels, temperature=1.0), TypeError, "logits.*floating"),
    "a list for a prediction": (lambda: F.normal_nll([0.0], y, scale=1.0), TypeError, "prediction must be a tensor"),
    "a list for a target": (lambda: F.normal_nll(x, [0.0], scale=1.0), TypeError, "target must be a tensor"),
    "negative fixed scale": (lambda: likely.NormalLoss(scale=-1.0), ValueError, "scale must be > 0"),
    "zero fixed scale": (lambda: likely.NormalLoss(scale=likely.Fixed(0.0)), ValueError, "scale must be > 0"),
    "zero scale in a tensor": (
        lambda: F.laplace_nll(x, y, scale=torch.tensor([1.0, 0.0, 1.0, 1.0])),
        ValueError,
        "scale must be > 0 everywhere, got 0",
    ),
    "logarithms of variances for scales": (
        lambda: F.normal_nll(x, y, scale=torch.tensor([1.0, -2.0, 1.0, 1.0])),
        ValueError,
        r"got -2: if these are logarithms of variances, pass \(log_variance / 2\).exp\(\)",
    ),
    "zero scale as a number": (lambda: F.laplace_nll(x, y, scale=0), ValueError, "scale must be > 0, got 0"),
    "NaN scale as a number": (lambda: F.laplace_nll(x, y, scale=nan), ValueError, "scale must be > 0, got nan"),
    "negative temperature": (lambda: likely.SoftmaxLoss(temperature=-2), ValueError, "temperature must be > 0"),
    "negative df": (lambda: F.student_t_nll(x, y, df=-1.0, scale=1.0), ValueError, "df must be > 0"),
    "negative alpha": (lambda: likely.RobustLoss(alpha=-0.5), ValueError, "alpha must be ≥ 0"),
    "negative alpha in a tensor": (
        lambda: F.robust_nll(x, y, alpha=torch.tensor(-0.5), scale=1.0),
        ValueError,
        "alpha must be ≥ 0 everywhere",
    ),
    "a start out of reach": (
        lambda: likely.RobustLoss(alpha=likely.Global(init=4.0)),
        ValueError,
        r"alpha cannot start at 4.0: Interval\(0, 3\) does not reach it",
    ),
    "a start of another shape": (
        lambda: likely.NormalLoss(likely.Global((2,), init=[1.0, 1, 1])),
        ValueError,
        "init of scale",
    ),
    "index of floats": (lambda: data()(x, y, index=torch.zeros(4)), TypeError, r"index.*call index.long\(\)"),
    "index of booleans": (
        lambda: data()(x, y, index=torch.ones(4).bool()),
        TypeError,
        "index must be an integer tensor",
    ),
    "index as a list": (
        lambda: data()(x, y, index=[0, 1, 2, 3]),
        TypeError,
        "index must be an integer tensor, got list",
    ),
    "index of one row for four": (lambda: data()(x, y, index=torch.tensor([2])), ValueError, r"\(1,\).*check index"),
    "features of one row for four": (
        lambda: predicted()(x, y, features=torch.randn(1, 5)),
        ValueError,
        r"\(1,\).*check features",
    ),
    "index missing": (lambda: data()(x, y), ValueError, "index=.*IndexedDataset"),
    "index beyond the table": (
        lambda: data()(x, y, index=torch.tensor([0, 1, 2, 6])),
        IndexError,
        "from 0 to 6, but Data holds rows 0 to 5",
    ),
    "negative index": (lambda: data()(x, y, index=torch.tensor([-1, 1, 2, 3])), IndexError, "from -1"),
    "index of another length": (
        lambda: data()(x, y, index=torch.tensor([1, 2, 3])),
        ValueError,
        r"scale has shape \(3,\).*check index",
    ),
    "index with two axes": (
        lambda: data()(x, y, index=torch.zeros(4, 1).long()),
        ValueError,
        "index must have one dimension",
    ),
    "no rows": (lambda: likely.Data(0), ValueError, "n must be the number of training rows"),
    "unknown fallback": (lambda: likely.Data(3, fallback="zero"), ValueError, "fallback"),
    "features missing": (lambda: predicted()(x, y), ValueError, "needs features="),
    "features of another width": (
        lambda: predicted()(x, y, features=torch.zeros(4, 6)),
        ValueError,
        r"features have shape \(4, 6\), Predicted expects 5 on axis -1",
    ),
    "features of integers": (
        lambda: predicted()(x, y, features=torch.zeros(4, 5).long()),
        TypeError,
        "features must be floating",
    ),
    "features of another batch": (lambda: predicted()(x, y, features=torch.zeros(3, 5)), ValueError, "check features"),
    "maps that are none": (
        lambda: predicted(spatial=True)(x, y, features=torch.zeros(4, 5)),
        ValueError,
        r"\(batch, channels, H, W\)",
    ),
    "maps of another size": (
        lambda: likely.NormalLoss(likely.Predicted(5, (1, 4, 4), spatial=True))(
            torch.zeros(2, 1, 4, 4), torch.zeros(2, 1, 4, 4), features=torch.zeros(2, 5, 3, 3)
        ),
        ValueError,
        r"maps of \(3, 3\), but shape is \(4, 4\)",
    ),
    "net and hidden": (lambda: likely.Predicted(5, net=nn.Linear(5, 1), hidden=(3,)), ValueError, "not both"),
    "a net of the wrong size": (
        lambda: predicted(net=nn.Linear(5, 2))(x, y, features=torch.zeros(4, 5)),
        ValueError,
        r"net returned shape \(4, 2\), expected \(4,\)",
    ),
    "unknown weights": (lambda: likely.Predicted(5, weights="ones"), ValueError, "weights"),
    "evaluating a Data loss": (lambda: data().eval()(x, y, index=labels), RuntimeError, "fallback='mean'"),
    "NaN in phi": (
        lambda: F.normal_nll(x, y, scale=torch.tensor([1.0, nan, 1.0, 1.0])),
        ValueError,
        "scale holds NaN: lower its learning rate",
    ),
    "phi that does not fit": (
        lambda: likely.NormalLoss(likely.Global((3,)))(x, y),
        ValueError,
        r"scale has shape \(3,\)",
    ),
    "an nn.Parameter": (
        lambda: likely.NormalLoss(nn.Parameter(torch.ones(()))),
        TypeError,
        r"use likely.Global\(init=",
    ),
    "a string for a parameter": (lambda: likely.NormalLoss("global"), TypeError, "scale must be a number or one of"),
    "an unknown parameter": (
        lambda: likely.NormalLoss(sigma=1.0),
        TypeError,
        "NormalLoss has no parameter sigma; it has scale",
    ),
    "a constraint that is none": (
        lambda: likely.Global(constraint=torch.exp),
        TypeError,
        "constraint must be a torch Transform",
    ),
    "unknown reduction": (
        lambda: likely.NormalLoss(reduction="avg"),
        ValueError,
        "reduction must be one of mean, sum, none",
    ),
    "unknown reduction in a call": (lambda: F.normal_nll(x, y, scale=1.0, reduction="avg"), ValueError, "reduction"),
    "labels of another shape": (
        lambda: likely.SoftmaxLoss()(logits, labels[:, None]),
        ValueError,
        r"target of class numbers has shape \(4, 1\), expected \(4,\)",
    ),
    "probabilities of another shape": (lambda: likely.SoftmaxLoss()(logits, y), ValueError, "target of probabilities"),
    "labels out of range": (
        lambda: likely.SoftmaxLoss()(logits, torch.tensor([0, 1, 2, 3])),
        ValueError,
        "class 0 to 3, but the logits have classes 0 to 2",
    ),
    "logits without classes": (
        lambda: likely.SoftmaxLoss()(torch.tensor(1.0), torch.tensor(0)),
        ValueError,
        "class axis",
    ),
    "a temperature a class": (
        lambda: F.softmax_nll(logits, labels, temperature=torch.ones(3)),
        ValueError,
        r"temperature \(3,\) does not broadcast to \(4,\)",
    ),
    "smoothing out of range": (lambda: likely.SoftmaxLoss(label_smoothing=1.5), ValueError, "label_smoothing"),
    "complex prediction": (
        lambda: likely.NormalLoss()(x + 0j, y),
        TypeError,
        r"prediction must be real, got torch.complex64: .*view_as_real\(prediction\)",
    ),
    "complex target": (lambda: likely.HuberLoss()(x, y + 0j), TypeError, "target must be real, got torch.complex64"),
    "complex target of a function": (
        lambda: F.student_t_nll(x, y + 0j, df=3.0, scale=1.0),
        TypeError,
        "target must be real",
    ),
    "complex labels": (lambda: likely.SoftmaxLoss()(logits, labels + 0j), TypeError, "target must be real"),
    "complex logits": (lambda: likely.BernoulliLoss()(x + 0j, y), TypeError, "prediction must be real"),
    "complex scale": (lambda: F.normal_nll(x, y, scale=torch.tensor(1 + 0j)), TypeError, "scale must be real"),
    "complex fixed number": (lambda: likely.NormalLoss(torch.tensor(1 + 0j)), TypeError, "value must be real"),
    "complex start": (
        lambda: likely.NormalLoss(likely.Global(init=torch.tensor(1 + 0j))),
        TypeError,
        "init of scale must be real",
    ),
    "complex weights": (
        lambda: likely.NormalLoss()(x, y, sample_weight=y + 0j),
        TypeError,
        "sample_weight must be real",
    ),
    "complex features": (
        lambda: predicted()(x, y, features=torch.zeros(4, 5) + 0j),
        TypeError,
        "features must be real",
    ),
    "binary labels out of range": (
        lambda: likely.BernoulliLoss()(x, torch.tensor([0.0, 1.0, -1.0, 2.0])),
        ValueError,
        r"target must lie in \[0, 1\]; got -1 to 2",
    ),
    "binary labels of -1 and 1": (
        lambda: F.bernoulli_nll(x, torch.tensor([-1, 1, 1, -1]), temperature=1.0),
        ValueError,
        r"target must lie in \[0, 1\]; got -1 to 1",
    ),
    "NaN in binary labels": (lambda: likely.BernoulliLoss()(x, nan * y), ValueError, "target holds NaN: leave"),
    "NaN in counts": (lambda: likely.PoissonLoss()(x, nan * y), ValueError, "target holds NaN: leave"),
    "probabilities that do not sum to one": (
        lambda: likely.SoftmaxLoss()(logits, torch.full((4, 3), 0.5)),
        ValueError,
        "target of probabilities sums to 1.5 … 1.5 .*expected 1: divide it by its sum",
    ),
    "negative probabilities": (
        lambda: likely.SoftmaxLoss()(logits, torch.tensor([[1.5, -0.5, 0.0]]).expand(4, 3)),
        ValueError,
        r"target must lie in \[0, 1\]",
    ),
    "labels out of range for a linear layer": (
        lambda: F.linear_softmax_nll(torch.zeros(4, 5), torch.zeros(3, 5), labels + 1),
        ValueError,
        "class 1 to 3, but the logits have classes 0 to 2",
    ),
    "negative counts of a function": (
        lambda: F.negative_binomial_nll(x, -y, dispersion=1.0),
        ValueError,
        "target must be ≥ 0 everywhere; got -1",
    ),
    "negative rates": (lambda: likely.PoissonLoss(log_input=False)(-y, y), ValueError, "prediction must be ≥ 0"),
    "negative counts": (lambda: likely.PoissonLoss()(x, -y), ValueError, "target must be ≥ 0"),
    "weights of another shape": (
        lambda: likely.NormalLoss()(x, y, sample_weight=torch.ones(3)),
        ValueError,
        "sample_weight",
    ),
    "weights of another shape, one of them zero": (
        lambda: likely.NormalLoss(scale=1.0)(x, y, sample_weight=torch.tensor([[1.0], [0.0]])),
        ValueError,
        "give one weight per row",
    ),
    "weights of a task that knows none": (
        lambda: likely.MultiTaskLoss({"a": torch.nn.MSELoss()})({"a": x}, {"a": y}, sample_weight=torch.ones(2)),
        TypeError,
        "takes no sample_weight: pass likely.from_torch",
    ),
    "weights of a task that is not there": (
        lambda: likely.MultiTaskLoss({"a": likely.NormalLoss()})({"a": x}, {"a": y}, sample_weight={"b": y}),
        ValueError,
        "sample_weight names b; the tasks are a",
    ),
    "a negative loss as a task": (
        lambda: likely.MultiTaskLoss({"a": torch.nn.PoissonNLLLoss()})({"a": x + 3}, {"a": y + 20}),
        ValueError,
        "its scale would fall to zero: pass likely.from_torch",
    ),
    "negative weights": (lambda: likely.NormalLoss()(x, y, sample_weight=-y), ValueError, "sample_weight must be ≥ 0"),
    "no tasks": (lambda: likely.MultiTaskLoss({}), ValueError, "at least one task"),
    "a loss class for a loss": (
        lambda: likely.param_groups(nn.Linear(1, 1), likely.NormalLoss, lr=0.1),
        TypeError,
        "loss_fn must be",
    ),
    "a negative learning rate": (
        lambda: likely.param_groups(nn.Linear(1, 1), likely.NormalLoss(), lr=-1),
        ValueError,
        "lr must be > 0",
    ),
}


@together("mistake", MISTAKES)
def test_says_what_to_do(mistake):
    call, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_values_go_unchecked_where_asked():
    bad = torch.tensor([1.0, -1.0, 1.0, 1.0])
    assert F.normal_nll(x, y, scale=bad, validate_args=False).isnan()
    loss_fn = likely.NormalLoss(likely.Global(init=1.0), validate_args=False)
    with torch.no_grad():
        loss_fn.scale.raw.fill_(nan)
    assert loss_fn(x, y).isnan()
    with pytest.raises(ValueError, match="NaN"):
        likely.NormalLoss(loss_fn.scale)(x, y)


def test_targets_go_unchecked_where_asked():
    """As on a GPU: the formula is applied as it stands."""
    two = torch.full((4,), 2.0)
    got = F.bernoulli_nll(y, two, temperature=1.0, validate_args=False)
    torch.testing.assert_close(got, torch.nn.functional.softplus(torch.tensor(1.0)) - 2)
    assert likely.SoftmaxLoss(validate_args=False)(logits, torch.ones(4, 3)).isfinite()


def test_labels_that_are_almost_probabilities_pass():
    soft = torch.softmax(torch.randn(4, 3), 1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert likely.SoftmaxLoss()(logits, soft.to(dtype)).isfinite()
    assert likely.BernoulliLoss()(x, torch.tensor([True, False, True, True])).isfinite()
    assert likely.BernoulliLoss()(x, torch.rand(4)).isfinite()


def test_shapes_are_checked_without_values():
    with pytest.raises(ValueError, match="reshape"):
        likely.NormalLoss(validate_args=False)(torch.zeros(4, 1), y)


def test_meta_tensors_pass():
    """No value can be looked at on the meta device, so a pass there proves that no check synchronises."""
    with torch.device("meta"):
        for loss_fn in (likely.NormalLoss(), likely.StudentTLoss(), likely.RobustLoss(), likely.HuberLoss()):
            assert loss_fn(torch.empty(4), torch.empty(4)).is_meta
        loss_fn = likely.SoftmaxLoss()
        assert loss_fn(torch.empty(4, 3), torch.empty(4, dtype=torch.long)).is_meta
