"""A model's outputs: labels judged by logits and features, targets by predictions."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.metrics import average_precision_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import likely
from likely.auditing._labels import judge_labels


def outputs(n: int = 600, wrong: float = 0.05, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    hard = rng.uniform(size=n)
    logits = (8 * np.eye(4)[truth] + (1 + 4 * hard[:, None]) * rng.normal(size=(n, 4))).astype(np.float32)
    labels, bad = truth.copy(), rng.choice(n, round(wrong * n), replace=False)
    labels[bad] = (truth[bad] + 1) % 4
    features = np.column_stack([hard, rng.normal(size=(n, 2))]).astype(np.float32)
    return logits, labels, features, bad


def test_features_that_tell_hard_rows_improve_the_ranking() -> None:
    logits, labels, features, bad = outputs(3000)
    wrong = np.isin(np.arange(3000), bad)
    own = np.arange(3000)
    confidence = log_softmax(logits.astype(float), axis=1)
    ours = average_precision_score(wrong, judge_labels(logits, labels, features).nll)
    assert ours > average_precision_score(wrong, -confidence[own, labels]) + 0.02  # cleanlab's self-confidence
    assert ours > average_precision_score(wrong, -confidence.max(1)) + 0.3


def test_all_that_can_be_found_in_outputs_is_there() -> None:
    logits, labels, features, bad = outputs()
    audit = likely.audit(logits=logits, labels=labels, features=features)
    found = next(f for f in audit.findings if f.name == "labels").rows
    assert np.isin(found, bad).mean() > 0.6
    assert {finding.name for finding in audit.findings} >= {
        "overview",
        "labels",
        "noise",
        "calibration",
        "rows",
        "order",
    }


def test_the_share_of_wrong_labels_is_estimated_and_none_is_none() -> None:
    for share in (0.0, 0.05, 0.15):
        logits, labels, _, _ = outputs(3000, share)
        assert abs(judge_labels(logits, labels).share - share) < 0.02


def test_multiplying_the_logits_changes_nothing() -> None:
    logits, labels, _, _ = outputs()
    first, second = judge_labels(logits.astype(float), labels), judge_labels(7.0 * logits.astype(float), labels)
    np.testing.assert_allclose(first.nll, second.nll, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(7 * first.temperature, second.temperature, rtol=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": np.zeros(5)}, "shape"),
        ({"logits": np.full((600, 4), np.nan)}, "NaN"),
        ({"logits": np.zeros((5, 4)), "labels": np.zeros(5, int)}, "20 or more"),
        ({"labels": np.zeros(5, int)}, "one class per row"),
        ({"labels": np.full(600, 9)}, "from 0 to 3"),
        ({"labels": np.full(600, 0.5)}, "from 0 to 3"),
        ({"labels": None}, "go together"),
        ({"features": np.zeros((5, 2))}, "features must be"),
        ({"features": np.full((600, 2), np.inf)}, "features hold NaN"),
        ({"classes": ["a"]}, "class names"),
        ({"data": {"x": [1]}}, "not both"),
    ],
)
def test_outputs_that_do_not_fit_together_are_refused(change: dict[str, Any], message: str) -> None:
    logits, labels, features, _ = outputs()
    with pytest.raises(ValueError, match=message):
        likely.audit(**{"logits": logits, "labels": labels, "features": features, **change})


def test_nothing_to_audit() -> None:
    with pytest.raises(ValueError, match="give a table"):
        likely.audit()


def network(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, outputs))


def trained(model: nn.Module, x: torch.Tensor, y: torch.Tensor, loss: Any) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    return model.train()


def test_a_torch_classifier_and_its_loader() -> None:
    x = torch.randn(800, 3)
    truth = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    model = trained(network(3), x[:400], truth[:400], nn.functional.cross_entropy)
    labels = truth[400:].clone()
    clear = (x[400:, :2].abs().amin(1) > 0.5).nonzero()[:20, 0]
    labels[clear] = (labels[clear] + 1) % 3
    weights = [own.clone() for own in model.parameters()]
    audit = likely.audit(model, DataLoader(TensorDataset(x[400:], labels), 64))
    found = next(f for f in audit.findings if f.name == "labels").rows
    assert len(set(found.tolist()) & set(clear.tolist())) >= 15
    assert model.training
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert not model[2]._forward_pre_hooks


def test_a_torch_regressor_and_its_loader() -> None:
    x = torch.randn(800, 3)
    y = x.sum(1, keepdim=True) + 0.1 * torch.randn(800, 1) + 20
    model = trained(network(1), x[:400], y[:400] - 20, nn.functional.mse_loss)
    with torch.no_grad():
        model[2].bias += 20
    targets = y[400:].clone()
    targets[5] *= 100
    audit = likely.audit(model, DataLoader(TensorDataset(x[400:], targets), 64))
    assert audit.task == "regression"
    assert audit.suspects[0].row == 5
    assert {finding.name for finding in audit.findings} >= {"targets", "calibration", "rows"}


def test_loaders_that_cannot_be_used() -> None:
    model = network(3)
    with pytest.raises(ValueError, match="give the loader"):
        likely.audit(model)
    with pytest.raises(ValueError, match="is empty"):
        likely.audit(model, [])
    with pytest.raises(ValueError, match="batches"):
        likely.audit(model, [torch.zeros(5, 3)])
    with pytest.raises(ValueError, match="one number per row"):
        likely.audit(model, [(torch.zeros(30, 3), torch.zeros(30))])
    assert not model[2]._forward_pre_hooks
