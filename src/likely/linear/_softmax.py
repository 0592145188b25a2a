r"""Softmax regression by scikit-learn, with a ridge whose strength is learned by evidence.

Class :math:`k` has the logit :math:`b_k + x \cdot w_k`, and the prior is :math:`w_{kj} \sim N(0, 1/\lambda)`. From
strong to weak, the strength of highest evidence in Laplace's approximation is chosen, with the curvature of each class
taken by itself. That counts directions once per class, though one class follows from the others, and so makes up for
what Laplace's approximation lacks where few rows are separated. NLL of new rows, mean of 15 tables with 3 to 32
classes, 30 and 100 rows: .45; with the exact curvature .46, with one model for each class against the rest .59, with
the strength of least cross-validated loss .48, with the best of all strengths .41.
"""

import numpy as np
from scipy import linalg
from sklearn.linear_model import LogisticRegression

from likely._typing import Array, Index

_SAMPLE_ROWS = 2000  # rows that the strength is learned from
_STEP = 0.5  # from one strength of the path to the next
_PATIENCE = 2  # strengths without improvement after which the path ends


def fit_softmax(
    x: Array, labels: Index, weight: Array, fit_intercept: bool, max_iter: int
) -> tuple[Array, Array, float, int]:
    """Return slopes (classes, columns), intercepts, the strength, and iterations.

    Where the evidence supports no slopes the strength is infinite, and the probabilities are the shares of the classes.
    """
    n, d = x.shape
    axes = linalg.svd(x, full_matrices=False)[2].T if n < d else np.eye(d)  # a ridge leaves the lines in the rows' span
    x, hot = x @ axes, np.eye(labels.max() + 1)[labels]
    some = slice(None, None, max(1, n // max(_SAMPLE_ROWS, 4 * d)))
    model = LogisticRegression(
        solver="newton-cg", tol=1e-5, fit_intercept=fit_intercept, max_iter=max_iter, warm_start=True
    )
    strength = _strength(model, x[some], hot[some], weight[some])
    if not np.isfinite(strength):
        logs = np.log(weight @ hot) * fit_intercept
        return np.zeros((len(logs), d)), logs - logs.mean(), strength, 0
    model.set_params(C=1 / strength, tol=1e-8).fit(x, labels, weight)
    return model.coef_ @ axes.T, model.intercept_, strength, int(model.n_iter_[0])


def _strength(model: LogisticRegression, x: Array, hot: Array, weight: Array) -> float:
    share = np.average(hot, axis=0, weights=weight) if model.fit_intercept else np.full(hot.shape[1], 1 / hot.shape[1])
    best, least = np.inf, -float(weight @ np.log(hot @ share))
    strength, waited = float(weight @ np.square(x).sum(1)), 0
    while waited < _PATIENCE and strength > 1e-8:
        logs = model.set_params(C=1 / strength).fit(x, hot.argmax(1), weight).predict_log_proba(x)
        loss = 0.5 * strength * np.square(model.coef_).sum() - weight @ (logs * hot).sum(1)
        for p in np.exp(logs).T:
            curve = weight * p * (1 - p) + np.finfo(float).tiny
            about = x - np.average(x, axis=0, weights=curve) if model.fit_intercept else x
            loss += 0.5 * np.linalg.slogdet(np.eye(x.shape[1]) + (about.T * curve) @ about / strength)[1]
        waited += 1
        if loss < least:
            best, least, waited = strength, loss, 0
        strength *= _STEP
    return best
