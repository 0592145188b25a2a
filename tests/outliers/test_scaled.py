"""PCA+S and AE+S: their start, their likelihoods and their scores."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from likely.functional import normal_nll
from likely.outliers import ScaledAutoencoderDetector, ScaledPCADetector
from pairwise import together

RNG = np.random.default_rng(0)
BASIS = RNG.normal(size=(2, 9))
X = RNG.normal(size=(600, 2)) @ BASIS + 0.2 * RNG.normal(size=(600, 9))
X[:30] += 2 * RNG.normal(size=(30, 9))
Y = np.arange(600) < 30


def standard(rows):
    return (rows - X.mean(0)) / X.std(0)


def test_it_starts_from_principal_components() -> None:
    start = ScaledPCADetector(2, max_steps=0, random_state=0).fit(X)
    with torch.no_grad():
        rebuilt = start.module_.rebuilt(torch.as_tensor(standard(X))).numpy()
    pca = PCA(2).fit(standard(X))
    np.testing.assert_allclose(rebuilt, pca.inverse_transform(pca.transform(standard(X))), atol=1e-4)


@pytest.mark.parametrize("make", [ScaledPCADetector, ScaledAutoencoderDetector])
@together("likelihood", ["normal", "student_t", "robust"])
@together(("dimension", "score"), [("row", "scale"), ("feature", "nll")])
def test_rows_off_the_plane_are_found(make, likelihood: str, dimension: str, score: str) -> None:
    options = {"likelihood": likelihood, "dimension": dimension, "score_by": score}
    detector = make(random_state=0, max_steps=30, **options).fit(X)
    assert roc_auc_score(Y, detector.outlier_score(X)) > 0.85
    assert roc_auc_score(Y, detector.explain(X).sum(1)) > 0.85


def test_the_score_is_the_likelihood_a_value() -> None:
    detector = ScaledPCADetector(random_state=0, max_steps=50).fit(X)
    x = torch.as_tensor(standard(X))
    with torch.no_grad():
        scale = detector.module_.loss_fn.scale(features=x)
        nll = normal_nll(detector.module_.rebuilt(x), x, scale=scale, reduction="none").mean(1).numpy()
    np.testing.assert_allclose(detector.outlier_score(X), nll, atol=1e-4)
    np.testing.assert_allclose(detector.scale(X), np.exp(scale.log().mean(1).numpy()), rtol=1e-4)


def test_ordinary_features_contribute_about_one() -> None:
    parts = ScaledPCADetector(random_state=0, max_steps=50).fit(X).explain(X)
    np.testing.assert_allclose(parts.mean(0), 1, rtol=1e-5)


def test_missing_values_are_not_counted() -> None:
    holed = X.copy()
    holed[5, 3] = np.nan
    detector = ScaledPCADetector(random_state=0, max_steps=20).fit(X)
    assert detector.explain(holed)[5, 3] == 0
    assert np.isfinite(detector.outlier_score(holed)).all()


def test_the_same_seed_is_the_same_detector_whatever_ran_before() -> None:
    torch.manual_seed(1)
    one = ScaledPCADetector(random_state=3, max_steps=20).fit(X).outlier_score(X)
    torch.manual_seed(2)
    np.testing.assert_array_equal(one, ScaledPCADetector(random_state=3, max_steps=20).fit(X).outlier_score(X))
    assert not np.array_equal(one, ScaledPCADetector(random_state=4, max_steps=20).fit(X).outlier_score(X))
