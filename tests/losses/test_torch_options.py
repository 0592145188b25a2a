"""The options of torch's losses at any temperature: weights, dtypes, empty batches, and errors of one line."""

import pytest
import torch
from torch import nn
from torch.nn import functional as TF

import likely
from likely import _kernels as kernels, functional as F
from likely.likelihoods import softmax
from pairwise import together

reductions = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
by_every_reduction = together("reduction", ["mean", "sum", "none"])


class TestClassWeights:
    @by_every_reduction
    @together("smoothing", [0.0, 0.2])
    @together("soft", [False, True], ids=["numbers", "probabilities"])
    @together("shape", [(6, 4), (6, 4, 5), (4,)], ids=str)
    def test_are_torchs(self, reduction, smoothing, soft, shape):
        logits, weight = torch.randn(shape), torch.rand(4) + 0.1
        axis = min(1, len(shape) - 1)
        target = torch.randn(shape).softmax(axis) if soft else torch.randint(0, 4, shape[:axis] + shape[axis + 1 :])
        if not soft and target.ndim:
            target[0] = -1
        options = {"ignore_index": -1, "label_smoothing": smoothing, "reduction": reduction}
        expected = TF.cross_entropy(logits / 1.7, target, weight, **options)
        loss_fn = likely.SoftmaxLoss(1.7, weight=weight, **options)
        torch.testing.assert_close(loss_fn(logits, target), expected)
        torch.testing.assert_close(F.softmax_nll(logits, target, temperature=1.7, weight=weight, **options), expected)
        # The long way, which weights of rows take.
        ones = torch.ones(shape[0]) if len(shape) > 1 else torch.tensor(1.0)
        torch.testing.assert_close(loss_fn(logits, target, sample_weight=ones), expected)

    def test_a_class_weight_is_a_weight_per_row(self):
        logits, target, weight = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, -100]), torch.tensor([1.0, 2.0, 0.5])
        rows = torch.rand(6)
        by_class = likely.SoftmaxLoss(2.0, weight=weight)(logits, target, sample_weight=rows)
        kept = target.clamp(min=0)
        by_row = likely.SoftmaxLoss(2.0)(logits, target, sample_weight=rows * weight[kept])
        torch.testing.assert_close(by_class, by_row)

    def test_no_kernel_ignores_them(self, monkeypatch):
        monkeypatch.setattr(softmax, "_has_kernel", lambda *_: True)
        monkeypatch.setattr(kernels, "softmax_nll", lambda *_, **__: pytest.fail("a kernel knows no class weights"))
        logits, target, weight = torch.randn(6, 4), torch.randint(0, 4, (6,)), torch.rand(4)
        expected = TF.cross_entropy(logits, target, weight)
        torch.testing.assert_close(likely.SoftmaxLoss(1.0, weight=weight)(logits, target), expected)

    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    @pytest.mark.parametrize("soft", [False, True], ids=["numbers", "probabilities"])
    @pytest.mark.parametrize("weight", [None, torch.tensor([1.0, 0.2, 3.0, 0.7])], ids=["plain", "weighted"])
    @pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5), (4,)], ids=str)
    def test_what_graphs_are_made_of(self, smoothing, soft, weight, shape, monkeypatch):
        """Under export and compile the formula is written out; the numbers are the same."""
        logits, axis = torch.randn(shape), min(1, len(shape) - 1)
        target = torch.randn(shape).softmax(axis) if soft else torch.randint(0, 4, shape[:axis] + shape[axis + 1 :])
        ignored = -100 if soft else 2  # torch refuses a class number beside probabilities
        options = {"ignore_index": ignored, "label_smoothing": smoothing}
        expected = TF.cross_entropy(logits, target, weight, reduction="none", **options)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        got = F.softmax_nll(logits, target, temperature=1.0, weight=weight, reduction="none", **options)
        torch.testing.assert_close(got, expected)

    def test_all_rows_ignored(self):
        loss_fn = likely.SoftmaxLoss(weight=torch.ones(3))
        assert loss_fn(torch.randn(2, 3), torch.full((2,), -100)).item() == 0

    def test_travel_with_the_module(self):
        loss_fn = likely.SoftmaxLoss(weight=torch.ones(3)).double()
        assert loss_fn.weight.dtype == torch.float64
        assert likely.SoftmaxLoss().weight is None
        assert "weight" not in likely.SoftmaxLoss().state_dict()


class TestBinaryWeights:
    @by_every_reduction
    @together("shape", [(6, 3), (2, 6, 3), (3,)], ids=str)
    def test_are_torchs(self, reduction, shape):
        """Several labels per row, soft ones among them."""
        logits, target = 4 * torch.randn(shape), torch.rand(shape)
        options = {"weight": torch.rand(3), "pos_weight": 3 * torch.rand(3), "reduction": reduction}
        expected = TF.binary_cross_entropy_with_logits(logits / 1.7, target, **options)
        torch.testing.assert_close(likely.BernoulliLoss(1.7, **options)(logits, target), expected)
        torch.testing.assert_close(F.bernoulli_nll(logits, target, temperature=1.7, **options), expected)

    def test_probabilities_at_their_ends(self):
        p = torch.tensor([0.0, 0.0, 1.0, 1.0, 1e-30, 0.3], requires_grad=True)
        y = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.3])
        got = likely.BernoulliLoss(1.0, logits=False, reduction="none")(p, y)
        torch.testing.assert_close(got, TF.binary_cross_entropy(p, y, reduction="none"))
        got.sum().backward()
        assert bool(p.grad.isfinite().all())
        probabilities = likely.BernoulliLoss(2.0, logits=False).distribution(torch.tensor([0.9])).probs
        torch.testing.assert_close(probabilities, torch.tensor([0.75]))


REAL = (likely.NormalLoss, likely.LaplaceLoss, likely.HuberLoss, likely.BernoulliLoss, likely.PoissonLoss)


@together("kind", REAL)
@together(
    ("prediction", "target", "result"),
    [
        (torch.float32, torch.float64, torch.float64),
        (torch.float64, torch.float32, torch.float64),
        (torch.float32, torch.int64, torch.float32),
        (torch.float32, torch.bool, torch.float32),
        (torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float16, torch.float64, torch.float64),
    ],
)
def test_the_wider_dtype_decides(kind, prediction, target, result):
    x = torch.randn(4, dtype=prediction, requires_grad=True)
    value = kind()(x, torch.tensor([0, 1, 1, 0]).to(target))
    value.backward()
    assert value.dtype == result
    assert x.grad.dtype == prediction


def test_double_probabilities_give_a_double_loss():
    logits, target = torch.randn(3, 4), torch.randn(3, 4, dtype=torch.float64).softmax(1)
    value = likely.SoftmaxLoss()(logits, target)
    torch.testing.assert_close(value, TF.cross_entropy(logits, target), check_dtype=True)


@reductions
def test_an_empty_batch_is_torchs(reduction):
    pairs = [(likely.NormalLoss, nn.MSELoss), (likely.LaplaceLoss, nn.L1Loss), (likely.HuberLoss, nn.HuberLoss)]
    pairs += [(likely.BernoulliLoss, nn.BCEWithLogitsLoss), (likely.PoissonLoss, nn.PoissonNLLLoss)]
    for ours, original in pairs:
        got, expected = (kind(reduction=reduction)(torch.zeros(0, 3), torch.zeros(0, 3)) for kind in (ours, original))
        torch.testing.assert_close(got.detach(), expected, equal_nan=True)
    for weight in (None, torch.ones(3)):
        empty = torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)
        got = likely.SoftmaxLoss(weight=weight, reduction=reduction)(*empty).detach()
        torch.testing.assert_close(got, nn.CrossEntropyLoss(weight, reduction=reduction)(*empty), equal_nan=True)


def test_a_multiplier():
    x, y, w = torch.randn(5), torch.randn(5), torch.rand(5)
    plain, twice = likely.NormalLoss(), likely.NormalLoss(multiplier=2.0)
    torch.testing.assert_close(twice(x, y), 2 * plain(x, y))
    torch.testing.assert_close(twice(x, y, sample_weight=w), 2 * plain(x, y, sample_weight=w))
    assert "multiplier=2.0" in repr(twice)
    with pytest.raises(ValueError, match="multiplier must be > 0, got 0"):
        likely.NormalLoss(multiplier=0.0)


def test_hubers_constant_goes_where_delta_is_fixed():
    x, y = torch.zeros(3), torch.tensor([0.1, 1.0, 9.0])
    fixed = likely.HuberLoss(1.0, 1.0, full=False)(x, y)
    torch.testing.assert_close(fixed, TF.huber_loss(x, y))
    free = likely.HuberLoss(likely.Global(init=1.0), 1.0, full=False)(x, y)
    torch.testing.assert_close(free.detach(), likely.HuberLoss(1.0, 1.0)(x, y))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: likely.SoftmaxLoss(weight=[1.0, 2.0]),
            "weight must be a tensor, got list: wrap it in torch.as_tensor",
        ),
        (
            lambda: likely.SoftmaxLoss(weight=torch.ones(3))(torch.zeros(2, 4), torch.zeros(2).long()),
            r"weight has shape \(3,\), but the logits have 4 classes: give one weight per class",
        ),
        (
            lambda: likely.BernoulliLoss(pos_weight=torch.ones(2))(torch.zeros(5, 3), torch.zeros(5, 3)),
            r"pos_weight has shape \(2,\) and does not broadcast to the logits' \(5, 3\): give one value per label",
        ),
        (
            lambda: likely.BernoulliLoss(logits=False)(torch.tensor([1.5]), torch.tensor([1.0])),
            r"prediction must lie in \[0, 1\]; got 1.5 to 1.5",
        ),
        (lambda: likely.PoissonLoss(eps=-1.0), "eps must be ≥ 0, got -1"),
        (
            lambda: likely.NormalLoss()(torch.zeros(2), torch.zeros(2), sample_weight=torch.ones(3)),
            "give one weight per row",
        ),
        (
            lambda: likely.NormalLoss()(torch.zeros(2, 1), torch.zeros(2)),
            r"prediction has shape \(2, 1\) and target \(2,\): reshape one to the other",
        ),
    ],
)
def test_errors_name_the_remedy(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()


@pytest.mark.gpu
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_gpu_kernel_ignores_class_weights(smoothing):
    """With so many classes the softmax has a kernel of its own on a GPU, which knows no class weights."""
    logits, target = torch.randn(64, 512, device="cuda"), torch.randint(0, 512, (64,), device="cuda")
    weight = torch.rand(512, device="cuda")
    original = nn.CrossEntropyLoss(weight, label_smoothing=smoothing)
    loss_fn = likely.from_torch(original)
    assert loss_fn.temperature.raw.is_cuda
    torch.testing.assert_close(loss_fn(logits, target), original(logits, target))
