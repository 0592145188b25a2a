"""What is particular to single losses; what they share is in the contract."""

import math

import pytest
import torch
from torch import nn

import likely
from likely import functional as F
from pairwise import together


class TestSoftmax:
    def test_soft_labels_equal_hard_ones(self):
        logits, target = torch.randn(6, 4), torch.randint(0, 4, (6,))
        loss_fn = likely.SoftmaxLoss(temperature=1.7)
        soft = nn.functional.one_hot(target, 4).float()
        torch.testing.assert_close(loss_fn(logits, soft), loss_fn(logits, target))

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    def test_masks_and_smooths_as_torch_does(self, reduction, smoothing):
        logits, target = torch.randn(6, 4, 5), torch.randint(0, 4, (6, 5))
        target[0] = -1
        expected = nn.functional.cross_entropy(
            logits / 1.7, target, ignore_index=-1, label_smoothing=smoothing, reduction=reduction
        )
        options = {"ignore_index": -1, "label_smoothing": smoothing, "reduction": reduction}
        loss_fn = likely.SoftmaxLoss(temperature=1.7, **options)
        torch.testing.assert_close(loss_fn(logits, target), expected)
        torch.testing.assert_close(F.softmax_nll(logits, target, temperature=1.7, **options), expected)

    def test_nothing_left_to_count_is_zero_not_nan(self):
        logits, target = torch.randn(3, 4, requires_grad=True), torch.full((3,), -100)
        loss = likely.SoftmaxLoss()(logits, target)
        loss.backward()
        assert loss.item() == 0
        assert not logits.grad.any()

    def test_a_ruled_out_class_leaves_the_gradients_finite(self):
        logits = torch.tensor([[1.0, -torch.inf, 0.5]], requires_grad=True)
        temperature = torch.tensor(2.0, requires_grad=True)
        F.softmax_nll(logits, torch.tensor([0]), temperature=temperature).backward()
        assert temperature.grad.isfinite()
        assert logits.grad[0, 1] == 0

    def test_a_row_whose_class_is_ruled_out_keeps_its_temperature(self):
        loss_fn = likely.SoftmaxLoss(likely.Data(3))
        logits = torch.tensor([[1.0, 0.0], [0.5, -torch.inf], [0.0, 1.0]])
        loss_fn(logits, torch.tensor([0, 1, 0]), index=torch.arange(3)).backward()
        right, excluded, wrong = loss_fn.temperature.value.tolist()
        assert right < excluded == 1.0 < wrong

    def test_unbatched_and_dense_shapes(self):
        assert likely.SoftmaxLoss()(torch.randn(4), torch.tensor(2)).shape == ()
        dense = likely.SoftmaxLoss(temperature=likely.Predicted(5, (6, 7)), reduction="none")
        logits, labels = torch.randn(2, 3, 6, 7), torch.randint(0, 3, (2, 6, 7))
        assert dense(logits, labels, features=torch.randn(2, 5)).shape == (2, 6, 7)
        assert dense.distribution(logits, features=torch.randn(2, 5)).probs.shape == (2, 6, 7, 3)

    def test_int32_labels(self):
        logits = torch.randn(3, 4)
        loss_fn = likely.SoftmaxLoss()
        assert loss_fn(logits, torch.tensor([0, 1, 2], dtype=torch.int32)) == loss_fn(logits, torch.tensor([0, 1, 2]))


def test_a_learned_global_temperature_calibrates():
    """Logits three times too sure: the temperature that maximises the likelihood is three."""
    torch.manual_seed(0)
    logits = torch.randn(4000, 5)
    target = torch.distributions.Categorical(logits=logits).sample()
    loss_fn = likely.SoftmaxLoss()
    optimizer = torch.optim.LBFGS(loss_fn.parameters(), line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_fn(3 * logits, target)
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    assert loss_fn.temperature.value.item() == pytest.approx(3, rel=0.05)


def test_beta_scales_the_gradient_of_the_mean():
    scale = torch.tensor([0.1, 3.0])
    for beta in (0.0, 0.5, 1.0):
        prediction = torch.zeros(2, requires_grad=True)
        likely.NormalLoss(scale=scale, beta=beta, reduction="sum")(prediction, torch.ones(2)).backward()
        torch.testing.assert_close(prediction.grad, -(scale ** (2 * beta - 2)))
    with pytest.raises(ValueError, match="beta"):
        likely.NormalLoss(beta=2.0)


def test_robust_alpha_learns_the_tails():
    torch.manual_seed(0)
    fitted = {}
    for name, sample in {
        "heavy": torch.distributions.StudentT(2.0),
        "normal": torch.distributions.Normal(0, 1),
    }.items():
        loss_fn = likely.RobustLoss()
        optimizer = torch.optim.Adam(loss_fn.parameters(), lr=0.05)
        residual = sample.sample((2000,))
        for _ in range(300):
            optimizer.zero_grad()
            loss_fn(torch.zeros(2000), residual).backward()
            optimizer.step()
        fitted[name] = loss_fn.alpha.value.item()
    assert fitted["heavy"] < 0.8
    assert 1.7 < fitted["normal"] < 2.4


class TestMultiTask:
    def test_is_the_sum_of_its_terms(self):
        loss_fn = likely.MultiTaskLoss({"a": likely.NormalLoss(), "b": likely.LaplaceLoss()})
        prediction = {"a": torch.randn(4), "b": torch.randn(4, 2)}
        target = {"a": torch.randn(4), "b": torch.randn(4, 2)}
        terms = loss_fn.terms(prediction, target)
        torch.testing.assert_close(loss_fn(prediction, target), terms["a"] + terms["b"])
        assert list(loss_fn.state_dict()) == [f"losses.{t}.scale.{n}" for t in "ab" for n in ("raw", "started")]

    def test_a_plain_loss_is_weighed_as_kendall_does(self):
        loss_fn = likely.MultiTaskLoss({"depth": nn.MSELoss()})
        target = torch.tensor([2.0, -2.0])
        optimizer = torch.optim.LBFGS(loss_fn.parameters(), line_search_fn="strong_wolfe", max_iter=100)

        def closure():
            optimizer.zero_grad()
            loss = loss_fn({"depth": torch.zeros(2)}, {"depth": target})
            loss.backward()
            return loss

        optimizer.step(closure)
        assert loss_fn.losses["depth"].scale.value.item() == pytest.approx(2, rel=1e-3)
        assert closure().item() == pytest.approx(0.5 + math.log(2), rel=1e-4)

    def test_extras_go_to_all_or_by_name(self):
        loss_fn = likely.MultiTaskLoss(
            {"a": likely.NormalLoss(scale=likely.Predicted(3)), "b": likely.NormalLoss(scale=likely.Data(9))}
        )
        both = {"a": torch.zeros(2), "b": torch.zeros(2)}
        index = torch.tensor([1, 2])
        shared = loss_fn(both, both, features=torch.randn(2, 3), index=index)
        named = loss_fn(both, both, features={"a": torch.randn(2, 3)}, index={"b": index})
        assert shared.isfinite()
        assert named.isfinite()
        with pytest.raises(ValueError, match="target lacks the task b"):
            loss_fn(both, {"a": torch.zeros(2)})


def test_negative_binomial_learns_its_dispersion():
    torch.manual_seed(0)
    rate = torch.distributions.Gamma(2.0, 2.0 / 5.0).sample((4000,))  # mean 5, dispersion 1/2
    counts = torch.poisson(rate)
    loss_fn = likely.NegativeBinomialLoss()
    optimizer = torch.optim.Adam(loss_fn.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss_fn(torch.full((4000,), math.log(5.0)), counts).backward()
        optimizer.step()
    assert loss_fn.dispersion.value.item() == pytest.approx(0.5, rel=0.1)
    d = loss_fn.distribution(torch.tensor([math.log(5.0)]))
    assert d.mean.item() == pytest.approx(5, rel=1e-4)


@together("mean", [1.0, 1000.0])
def test_the_dispersion_of_poisson_counts_falls_until_they_are_poisson(mean):
    torch.manual_seed(0)
    counts, log_mean = torch.poisson(torch.full((500,), mean)), torch.full((500,), math.log(mean))
    loss_fn = likely.from_torch(torch.nn.PoissonNLLLoss(full=True))
    optimizer = torch.optim.Adam(loss_fn.parameters(), lr=0.2)
    for _ in range(100):
        optimizer.zero_grad()
        loss_fn(log_mean, counts).backward()
        optimizer.step()
    assert loss_fn.distribution(log_mean[:1]).stddev.item() == pytest.approx(math.sqrt(mean), rel=0.15)


def test_repr_says_what_matters():
    text = repr(likely.RobustLoss(alpha=1.0, scale=likely.Predicted(8, (3,)), reduction="sum"))
    assert all(
        part in text for part in ("reduction='sum'", "Fixed(1)", "Predicted", "shape=(3,)", "from data", "Exp()")
    )


def test_features_may_be_given_by_name() -> None:
    loss_fn = likely.RobustLoss(alpha=likely.Predicted(2), scale=likely.Predicted(3))
    x, y, two, three = torch.randn(5), torch.randn(5), torch.randn(5, 2), torch.randn(5, 3)
    loss_fn.eval()
    by_name = loss_fn(x, y, features={"alpha": two, "scale": three})
    phi = {"alpha": loss_fn.alpha(features=two), "scale": loss_fn.scale(features=three)}
    torch.testing.assert_close(by_name, likely.functional.robust_nll(x, y, **phi))
    with pytest.raises(ValueError, match="features are for alpha, sigma; RobustLoss has alpha, scale"):
        loss_fn(x, y, features={"alpha": two, "sigma": three})
    with pytest.raises(ValueError, match="a Predicted parameter needs features="):
        loss_fn(x, y, features={"alpha": two})
