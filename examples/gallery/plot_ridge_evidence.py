r"""
Ridge without a search
======================

The strength of ridge regression, usually found by cross-validation, is a ratio of two
variances: the noise's and the weights'. :class:`~likely.linear.DynamicRidge` learns both from the
training rows, by the evidence: the probability of the targets with the weights integrated out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from likely.linear import DynamicRidge

rng = np.random.default_rng(0)
X, truth = rng.normal(size=(100, 70)), rng.normal(size=70)


def error(model):
    return np.linalg.norm(model.coef_ - truth) / np.linalg.norm(truth)


# %%
# Three levels of noise. The curves are computed with the true weights; the dots, the strengths that
# Dynamic Ridge learns, only from the rows.

strengths = np.logspace(-1.5, 4.5, 80)
fig, ax = plt.subplots(figsize=(7.0, 4.8), layout="constrained")
for noise, colour, name in ((1.5, "C0", "little noise"), (5, "C2", "more"), (15, "C1", "much")):
    y = X @ truth + noise * rng.normal(size=100)
    curve = np.array([error(Ridge(alpha).fit(X, y)) for alpha in strengths])
    dynamic = DynamicRidge().fit(X, y)
    ax.plot(strengths, curve, color=colour)
    ax.plot(dynamic.penalty_, error(dynamic), "o", ms=12, color=colour, mec="white")
    label = 2 if curve[2] < 1.3 else np.flatnonzero(curve < 1.25)[0]
    ax.text(strengths[label] * 1.3, curve[label] + 0.02, name, color=colour, size=15)
    print(f"{name:12}  best λ: error {curve.min():.3f}, Dynamic Ridge: {error(dynamic):.3f}")
ax.set(xscale="log", xlim=(strengths[0], strengths[-1]), ylim=(0, 1.3), xlabel="strength λ")
ax.set(ylabel="relative error of the weights", title="Each dot chose its λ by itself")
plt.show()
